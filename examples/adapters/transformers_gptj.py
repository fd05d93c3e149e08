"""GPTJAttention of transformers 5.23: rotary positions of half of each head, and its cache."""

import copy

import torch
from transformers import DynamicCache, GPTJConfig
from transformers.masking_utils import create_causal_mask
from transformers.models.gptj.modeling_gptj import GPTJAttention


class GPTJ(GPTJAttention):
    def __init__(self, hidden_size, heads, attention_dropout=0.0):
        sizes = {"n_embd": hidden_size, "n_head": heads, "rotary_dim": hidden_size // heads // 2}
        rates = {"attn_pdrop": attention_dropout, "resid_pdrop": 0.0}
        config = GPTJConfig(**sizes, **rates, attn_implementation="eager")
        super().__init__(config, layer_idx=0)

    def forward(self, x, cache=None):
        cache = DynamicCache() if cache is None else copy.deepcopy(cache)
        past = cache.get_seq_length()
        places = torch.arange(past, past + x.shape[1], device=x.device)[None]
        given = {"attention_mask": None, "past_key_values": cache, "position_ids": places}
        mask = create_causal_mask(self.config, x, **given)
        return super().forward(x, cache, mask, places.expand(len(x), -1))[0], cache
