"""Gemma2Attention of transformers 5.23: positions, a window, its cache, and limited scores."""

import copy

import torch
from transformers import DynamicCache, Gemma2Config
from transformers.masking_utils import create_sliding_window_causal_mask
from transformers.models.gemma2.modeling_gemma2 import Gemma2Attention, Gemma2RotaryEmbedding


class Gemma2(Gemma2Attention):
    def __init__(self, hidden_size, heads, key_value_heads, window, softcap, attention_dropout=0.0):
        width = hidden_size // heads
        sizes = {"hidden_size": hidden_size, "head_dim": width, "query_pre_attn_scalar": width}
        sizes |= {"num_attention_heads": heads, "num_key_value_heads": key_value_heads}
        sizes |= {"sliding_window": window, "attn_logit_softcapping": softcap}
        sizes |= {"num_hidden_layers": 1, "layer_types": ["sliding_attention"]}
        rates = {"attention_dropout": attention_dropout, "attn_implementation": "eager"}
        config = Gemma2Config(**sizes, **rates)
        super().__init__(config, layer_idx=0)
        self.rotary = Gemma2RotaryEmbedding(config)

    def forward(self, x, cache=None):
        cache = DynamicCache(config=self.config) if cache is None else copy.deepcopy(cache)
        past = cache.get_seq_length()
        places = torch.arange(past, past + x.shape[1], device=x.device)[None]
        given = {"attention_mask": None, "past_key_values": cache, "position_ids": places}
        mask = create_sliding_window_causal_mask(self.config, x, **given)
        return super().forward(x, self.rotary(x, places), mask, cache)[0], cache
