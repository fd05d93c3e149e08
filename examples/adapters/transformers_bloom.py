"""BloomAttention of transformers 5.23: ALiBi with slopes of two sequences, and its cache."""

import copy

import torch
from transformers import BloomConfig, DynamicCache
from transformers.masking_utils import create_causal_mask
from transformers.models.bloom.modeling_bloom import BloomAttention, build_alibi_tensor


class Bloom(BloomAttention):
    def __init__(self, hidden_size, heads, attention_dropout=0.0):
        rates = {"attention_dropout": attention_dropout, "hidden_dropout": 0.0}
        config = BloomConfig(hidden_size=hidden_size, n_head=heads, **rates)
        config._attn_implementation = "eager"
        super().__init__(config, layer_idx=0)
        self.config = config

    def forward(self, x, cache=None):
        cache = DynamicCache() if cache is None else copy.deepcopy(cache)
        places = torch.ones(len(x), cache.get_seq_length() + x.shape[1], device=x.device)
        given = {"attention_mask": None, "past_key_values": cache}
        mask = create_causal_mask(self.config, x, **given)
        fall = build_alibi_tensor(places, self.num_heads, x.dtype)
        return super().forward(x, torch.zeros_like(x), fall, mask, cache)[0], cache
