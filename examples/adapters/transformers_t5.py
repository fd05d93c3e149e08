"""T5Attention of transformers 5.23, in the first layer of a decoder: relative positions; its cache."""

import copy

from transformers import DynamicCache, EncoderDecoderCache, T5Config
from transformers.masking_utils import create_causal_mask
from transformers.models.t5.modeling_t5 import T5Attention


class T5(T5Attention):
    def __init__(self, d_model, num_heads, dropout_rate=0.0):
        sizes = {"d_model": d_model, "d_kv": d_model // num_heads, "num_heads": num_heads}
        kinds = {"is_decoder": True, "attn_implementation": "sdpa"}
        config = T5Config(**sizes, **kinds, dropout_rate=dropout_rate)
        super().__init__(config, has_relative_attention_bias=True, layer_idx=0, is_causal=True)

    def forward(self, x, cache=None):
        whole = EncoderDecoderCache(DynamicCache(), DynamicCache())
        whole = whole if cache is None else copy.deepcopy(cache)
        mask = create_causal_mask(self.config, x, attention_mask=None, past_key_values=whole)
        return super().forward(x, mask, past_key_values=whole)[0], whole
