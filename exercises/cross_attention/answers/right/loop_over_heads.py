"""Style: a loop over the heads, whose outputs are joined."""

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
        queries = self.W_query(x).split(self.head_dim, dim=-1)
        keys = self.W_key(y).split(self.head_dim, dim=-1)
        values = self.W_value(y).split(self.head_dim, dim=-1)
        contexts = []
        for q, k, v in zip(queries, keys, values, strict=True):
            weights = torch.softmax(q @ k.mT / self.head_dim**0.5, dim=-1)
            contexts.append(self.dropout(weights) @ v)
        return self.out_proj(torch.cat(contexts, dim=-1))
