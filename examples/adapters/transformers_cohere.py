"""CohereAttention of transformers 5.23: norms with a gain for each head, and rotary neighbours."""

import copy

import torch
from transformers import CohereConfig, DynamicCache
from transformers.masking_utils import create_causal_mask
from transformers.models.cohere.modeling_cohere import CohereAttention, CohereRotaryEmbedding


class Cohere(CohereAttention):
    def __init__(self, hidden_size, heads, key_value_heads, attention_dropout=0.0):
        sizes = {"hidden_size": hidden_size, "head_dim": hidden_size // heads}
        sizes |= {"num_attention_heads": heads, "num_key_value_heads": key_value_heads}
        rates = {"attention_dropout": attention_dropout, "attn_implementation": "sdpa"}
        config = CohereConfig(**sizes, **rates, use_qk_norm=True)
        super().__init__(config, layer_idx=0)
        self.rotary = CohereRotaryEmbedding(config)

    def forward(self, x, cache=None):
        cache = DynamicCache() if cache is None else copy.deepcopy(cache)
        past = cache.get_seq_length()
        places = torch.arange(past, past + x.shape[1], device=x.device)[None]
        given = {"attention_mask": None, "past_key_values": cache, "position_ids": places}
        mask = create_causal_mask(self.config, x, **given)
        return super().forward(x, self.rotary(x, places), mask, cache)[0], cache
