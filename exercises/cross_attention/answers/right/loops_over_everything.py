"""In plain loops: over sequences, heads, queries and keys."""

import torch
from torch import nn


class CrossAttention(nn.Module):
    """The tokens of x read those of y."""

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

    def forward(self, x, y):
        batch = []
        for own, others in zip(x, y):
            q, k, v = self.W_query(own), self.W_key(others), self.W_value(others)
            rows = []
            for i in range(len(own)):
                heads = []
                for h in range(self.num_heads):
                    part = slice(h * self.head_dim, (h + 1) * self.head_dim)
                    scores = [q[i, part] @ key[part] / self.head_dim**0.5 for key in k]
                    weights = self.dropout(torch.softmax(torch.stack(scores), dim=0))
                    row = 0
                    for weight, value in zip(weights, v):
                        row = row + weight * value[part]
                    heads.append(row)
                rows.append(torch.cat(heads))
            batch.append(torch.stack(rows))
        return self.out_proj(torch.stack(batch))
