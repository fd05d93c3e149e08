"""Style: the cache is a list with a part for each call, copied before it grows."""

import torch
from torch import nn


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

    def split(self, t):
        return t.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x, cache=None):
        parts = [*(cache or []), (self.split(self.W_key(x)), self.split(self.W_value(x)))]
        k = torch.cat([key for key, _ in parts], dim=2)
        v = torch.cat([value for _, value in parts], dim=2)
        q = self.split(self.W_query(x))
        t, s = q.shape[2], k.shape[2]
        scores = q @ k.mT / self.head_dim**0.5
        hidden = torch.full((t, s), float("-inf"), dtype=x.dtype, device=x.device).triu(s - t + 1)
        weights = self.dropout((scores + hidden).softmax(-1))
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), parts
