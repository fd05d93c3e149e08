"""Style: one query at a time, with the keys that it sees."""

import torch
from torch import nn


class DifferentialAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.lambda_ = nn.Parameter(0.8 * torch.ones(num_heads))

    def forward(self, x):
        b, t, _ = x.shape
        half = self.head_dim // 2
        q = self.W_query(x).reshape(b, t, self.num_heads, 2, half)
        k = self.W_key(x).reshape(b, t, self.num_heads, 2, half)
        v = self.W_value(x).reshape(b, t, self.num_heads, self.head_dim)
        rows = []
        for i in range(t):
            scores = (q[:, i, None] * k[:, : i + 1]).sum(-1) / half**0.5
            maps = scores.softmax(dim=1)
            weights = maps[..., 0] - self.lambda_ * maps[..., 1]
            rows.append((weights[..., None] * v[:, : i + 1]).sum(1).flatten(1))
        return self.out_proj(torch.stack(rows, dim=1))
