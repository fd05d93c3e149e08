"""Queries from one sequence, keys and values from another."""

import torch
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, context):
        q = self.to_q(x)
        k, v = self.to_kv(context).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1)
        return self.to_out((weights @ v).transpose(1, 2).flatten(2))
