"""Style: every new token attends by itself, to as many keys as there are up to it."""

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

    def forward(self, x, cache=None):
        size = (x.shape[0], x.shape[1], self.num_heads, self.head_dim)
        q, k, v = (layer(x).view(size) for layer in (self.W_query, self.W_key, self.W_value))
        keys, values = (k, v) if cache is None else (torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1))
        past = keys.shape[1] - x.shape[1]
        rows = []
        for i in range(x.shape[1]):
            seen = past + i + 1
            scores = (q[:, i, None] * keys[:, :seen]).sum(-1) / self.head_dim**0.5
            weights = self.dropout(scores.softmax(dim=1))
            rows.append((weights[..., None] * values[:, :seen]).sum(1).flatten(1))
        return self.out_proj(torch.stack(rows, dim=1)), [keys, values]
