"""Style: a loop over heads, each with a cache of its own."""

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
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        old = cache if cache is not None else [(k[:, :0, :0], v[:, :0, :0])] * self.num_heads
        heads, kept = [], []
        for h in range(self.num_heads):
            own = slice(h * self.head_dim, (h + 1) * self.head_dim)
            keys = torch.cat([old[h][0], k[..., own]], dim=1) if cache else k[..., own]
            values = torch.cat([old[h][1], v[..., own]], dim=1) if cache else v[..., own]
            scores = q[..., own] @ keys.mT / self.head_dim**0.5
            past = keys.shape[1] - x.shape[1]
            scores = scores.masked_fill(torch.ones_like(scores).triu(past + 1).bool(), -torch.inf)
            heads.append(self.dropout(scores.softmax(-1)) @ values)
            kept.append((keys, values))
        return self.out_proj(torch.cat(heads, dim=-1)), kept
