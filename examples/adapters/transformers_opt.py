"""OPTAttention of transformers 5.23: queries are scaled before they are compared; its cache."""

import copy

from transformers import DynamicCache, OPTConfig
from transformers.masking_utils import create_causal_mask
from transformers.models.opt.modeling_opt import OPTAttention


class OPT(OPTAttention):
    def __init__(self, hidden_size, heads, attention_dropout=0.0):
        sizes = {"hidden_size": hidden_size, "num_attention_heads": heads}
        rates = {"attention_dropout": attention_dropout, "attn_implementation": "sdpa"}
        super().__init__(OPTConfig(**sizes, **rates), layer_idx=0)

    def forward(self, x, cache=None):
        cache = DynamicCache() if cache is None else copy.deepcopy(cache)
        given = {"attention_mask": None, "past_key_values": cache}
        mask = create_causal_mask(self.config, x, **given)
        return super().forward(x, cache, mask)[0], cache
