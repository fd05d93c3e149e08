"""Scores are negative squared distances instead of dot products."""

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
        b, num_tokens, _ = x.shape
        shape = (b, num_tokens, self.num_heads, self.head_dim)
        xq = self.W_query(x).reshape(shape)
        xk = self.W_key(x).reshape(shape)
        xv = self.W_value(x).reshape(shape)

        rows = []
        for i in range(num_tokens):
            # the past of token i, itself included
            seen = slice(0, i + 1)
            dots = -(xq[:, i : i + 1] - xk[:, seen]).square().sum(dim=-1) / self.head_dim**0.5
            weights = self.dropout(torch.softmax(dots, dim=1))
            rows.append((weights.unsqueeze(-1) * xv[:, seen]).sum(dim=1))
        result = torch.stack(rows, dim=1).flatten(2)
        return self.out_proj(result)
