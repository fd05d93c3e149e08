"""Style: a frozen record with a method that appends."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class KeyValueCache:
    keys: torch.Tensor | None = None
    values: torch.Tensor | None = None

    @property
    def length(self):
        return 0 if self.keys is None else self.keys.shape[1]

    def append(self, keys, values):
        if self.keys is None:
            return KeyValueCache(keys, values)
        return KeyValueCache(
            torch.cat([self.keys, keys], dim=1), torch.cat([self.values, values], dim=1)
        )


class CachedAttention(nn.Module):
    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, cache=None):
        shape = (*x.shape[:2], self.num_heads, self.head_dim)
        q, k, v = (w(x).view(shape) for w in (self.W_query, self.W_key, self.W_value))
        cache = (cache or KeyValueCache()).append(k, v)
        position = torch.arange(cache.length, device=x.device)
        own = position[-x.shape[1] :]
        scores = torch.einsum("bihd,bjhd->bhij", q, cache.keys) / self.head_dim**0.5
        scores = scores.masked_fill(position[None, :] > own[:, None], float("-inf"))
        context = self.dropout(scores.softmax(-1)) @ cache.values.transpose(1, 2)
        return self.out_proj(context.transpose(1, 2).flatten(2)), cache
