"""Qwen3NextAttention of transformers 5.23: a gate, norms, and positions of a quarter of heads."""

import copy

import torch
from transformers import DynamicCache, Qwen3NextConfig
from transformers.masking_utils import create_causal_mask
from transformers.models.qwen3_next.modeling_qwen3_next import (
    Qwen3NextAttention,
    Qwen3NextRotaryEmbedding,
)


class Qwen3Next(Qwen3NextAttention):
    def __init__(self, hidden_size, heads, key_value_heads, attention_dropout=0.0):
        sizes = {"hidden_size": hidden_size, "head_dim": hidden_size // heads}
        sizes |= {"num_attention_heads": heads, "num_key_value_heads": key_value_heads}
        rates = {"attention_dropout": attention_dropout, "attn_implementation": "sdpa"}
        config = Qwen3NextConfig(**sizes, **rates)
        super().__init__(config, layer_idx=0)
        self.rotary = Qwen3NextRotaryEmbedding(config)

    def forward(self, x, cache=None):
        cache = DynamicCache() if cache is None else copy.deepcopy(cache)
        past = cache.get_seq_length()
        places = torch.arange(past, past + x.shape[1], device=x.device)[None]
        given = {"attention_mask": None, "past_key_values": cache, "position_ids": places}
        mask = create_causal_mask(self.config, x, **given)
        return super().forward(x, self.rotary(x, places), mask, cache)[0], cache
