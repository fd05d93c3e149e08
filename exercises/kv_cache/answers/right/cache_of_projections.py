"""Style: what is kept are the projections before the split, in one tensor."""

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
        new = torch.cat([self.W_key(x), self.W_value(x)], dim=-1)
        kept = new if cache is None else torch.cat([cache, new], dim=1)
        k, v = kept.chunk(2, dim=-1)
        b, t, _ = x.shape
        s = k.size(1)
        q = self.W_query(x).view(b, t, self.num_heads, -1)
        k, v = k.reshape(b, s, self.num_heads, -1), v.reshape(b, s, self.num_heads, -1)
        scores = torch.einsum("bihd,bjhd->bhij", q, k) * self.head_dim**-0.5
        i = torch.arange(s - t, s, device=x.device)[:, None]
        j = torch.arange(s, device=x.device)[None]
        scores = torch.where(j <= i, scores, -torch.inf)
        weights = self.dropout(torch.softmax(scores, -1))
        context = torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2)
        return self.out_proj(context), kept
