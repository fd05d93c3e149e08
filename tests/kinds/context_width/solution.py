"""Scores by einsum, as in implementations of Perceiver."""

import torch
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, query_dim, context_dim, inner_dim, heads):
        super().__init__()
        self.heads, self.width = heads, inner_dim // heads
        self.to_q = nn.Linear(query_dim, inner_dim, bias=False)
        self.to_kv = nn.Linear(context_dim, 2 * inner_dim, bias=False)
        self.to_out = nn.Linear(inner_dim, inner_dim)

    def forward(self, x, context):
        q, (k, v) = self.to_q(x), self.to_kv(context).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        sim = torch.einsum("bhid,bhjd->bhij", q, k) * self.width**-0.5
        out = torch.einsum("bhij,bhjd->bhid", sim.softmax(dim=-1), v)
        return self.to_out(out.transpose(1, 2).flatten(2))
