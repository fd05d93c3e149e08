"""DiffLlamaAttention of transformers 5.23: two maps, a norm of what heads give, and a cache.

The module keeps the first halves of all heads before all second halves, and makes one lambda of
four vectors. Here its layers give each head's halves side by side, as the contract says, and each
head has a lambda, of which the vectors are made.
"""

import copy

import torch
from torch import nn
from transformers import DiffLlamaConfig, DynamicCache
from transformers.masking_utils import create_causal_mask
from transformers.models.diffllama.modeling_diffllama import (
    DiffLlamaAttention,
    DiffLlamaRotaryEmbedding,
)


class HalvesApart(nn.Linear):
    """A layer whose result has the first halves of all heads first."""

    def __init__(self, layer, width):
        super().__init__(layer.in_features, layer.out_features, bias=False)
        self.width = width

    def forward(self, x):
        halves = super().forward(x).unflatten(-1, (-1, 2, self.width))
        return halves.transpose(-3, -2).flatten(-3)


class DiffLlama(DiffLlamaAttention):
    def __init__(self, hidden_size, heads, key_value_heads):
        width = hidden_size // heads // 2
        sizes = {"hidden_size": hidden_size, "head_dim": width}
        sizes |= {"num_attention_heads": 2 * heads, "num_key_value_heads": 2 * key_value_heads}
        config = DiffLlamaConfig(**sizes, attn_implementation="sdpa")
        super().__init__(config, layer_idx=0)
        for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
            delattr(self, name)
        for name in ("q_proj", "k_proj", "v_proj"):
            setattr(self, name, HalvesApart(getattr(self, name), width))
        self.lambdas = nn.Parameter(torch.full((heads,), self.lambda_init))
        self.rotary = DiffLlamaRotaryEmbedding(config)

    def set_lambdas(self):
        """Give the vectors with which exp(q1 k1) - exp(q2 k2) is lambda minus its first value."""
        off, one = (self.lambdas - self.lambda_init)[:, None, None], self.lambdas.new_ones(1)
        self.lambda_q1, self.lambda_k1 = off.clamp(min=0).log1p(), one
        self.lambda_q2, self.lambda_k2 = (-off).clamp(min=0).log1p(), one

    def forward(self, x, cache=None):
        self.set_lambdas()
        cache = DynamicCache() if cache is None else copy.deepcopy(cache)
        past = cache.get_seq_length()
        places = torch.arange(past, past + x.shape[1], device=x.device)[None]
        given = {"attention_mask": None, "past_key_values": cache, "position_ids": places}
        mask = create_causal_mask(self.config, x, **given)
        return super().forward(x, self.rotary(x, places), mask, cache)[0], cache
