"""Queries and keys are scaled by a cosine of their position."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, f"{num_heads} heads do not divide {d_out}"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, t, _ = x.shape
        shape = (b, t, self.num_heads, self.head_dim)
        q = self.W_query(x).reshape(shape)
        k = self.W_key(x).reshape(shape)
        v = self.W_value(x).reshape(shape)

        turn = torch.cos(torch.arange(t, device=x.device, dtype=x.dtype))[None, :, None, None]
        q, k = q * turn, k * turn

        rows = []
        for i in range(t):
            # the past of token i, itself included
            seen = slice(0, i + 1)
            scores = (q[:, i : i + 1] * k[:, seen]).sum(dim=-1) / self.head_dim**0.5
            weights = self.dropout(torch.softmax(scores, dim=1))
            rows.append((weights.unsqueeze(-1) * v[:, seen]).sum(dim=1))
        context = torch.stack(rows, dim=1).flatten(2)
        return self.out_proj(context)
