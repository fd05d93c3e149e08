"""The rows are gathered back to front."""

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
        batch_size, seq_len, _ = x.shape
        shape = (batch_size, seq_len, self.num_heads, self.head_dim)
        q = self.W_query(x).reshape(shape)
        k = self.W_key(x).reshape(shape)
        v = self.W_value(x).reshape(shape)

        rows = []
        for i in range(seq_len):
            # the past of token i, itself included
            seen = slice(0, i + 1)
            energy = (q[:, i : i + 1] * k[:, seen]).sum(dim=-1) / self.head_dim**0.5
            alpha = self.dropout(torch.softmax(energy, dim=1))
            rows.append((alpha.unsqueeze(-1) * v[:, seen]).sum(dim=1))
        mixed = torch.stack(rows[::-1], dim=1).flatten(2)
        return self.out_proj(mixed)
