"""MistralAttention of transformers 5.23: positions, a window, and a cache that keeps no more."""

import copy

import torch
from transformers import DynamicCache, MistralConfig
from transformers.masking_utils import create_sliding_window_causal_mask
from transformers.models.mistral.modeling_mistral import MistralAttention, MistralRotaryEmbedding


class Mistral(MistralAttention):
    def __init__(self, hidden_size, heads, key_value_heads, window, attention_dropout=0.0):
        sizes = {"hidden_size": hidden_size, "head_dim": hidden_size // heads}
        sizes |= {"num_attention_heads": heads, "num_key_value_heads": key_value_heads}
        rates = {"attention_dropout": attention_dropout, "attn_implementation": "eager"}
        config = MistralConfig(**sizes, **rates, sliding_window=window, num_hidden_layers=1)
        super().__init__(config, layer_idx=0)
        self.rotary = MistralRotaryEmbedding(config)

    def forward(self, x, cache=None):
        cache = DynamicCache(config=self.config) if cache is None else copy.deepcopy(cache)
        past = cache.get_seq_length()
        places = torch.arange(past, past + x.shape[1], device=x.device)[None]
        given = {"attention_mask": None, "past_key_values": cache, "position_ids": places}
        mask = create_sliding_window_causal_mask(self.config, x, **given)
        return super().forward(x, self.rotary(x, places), mask, cache)[0], cache
