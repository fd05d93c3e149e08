"""Style: a loop over the heads, each with its slope."""

import torch
from torch import nn


class AlibiAttention(nn.Module):
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

    def forward(self, x):
        queries = self.W_query(x).split(self.head_dim, dim=-1)
        keys = self.W_key(x).split(self.head_dim, dim=-1)
        values = self.W_value(x).split(self.head_dim, dim=-1)
        position = torch.arange(x.shape[1], device=x.device)
        distance = position[:, None] - position
        contexts = []
        for h, (q, k, v) in enumerate(zip(queries, keys, values, strict=True), start=1):
            slope = 2 ** (-8 * h / self.num_heads)
            scores = q @ k.mT / self.head_dim**0.5 - slope * distance
            weights = torch.softmax(scores.masked_fill(distance < 0, float("-inf")), dim=-1)
            contexts.append(self.dropout(weights.to(x.dtype)) @ v)
        return self.out_proj(torch.cat(contexts, dim=-1))
