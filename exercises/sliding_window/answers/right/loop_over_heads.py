"""Style: a loop over the heads, whose outputs are joined."""

import torch
from torch import nn


class SlidingWindowAttention(nn.Module):
    """Every token sees itself and the window - 1 tokens before it."""

    def __init__(self, d_in, d_out, window, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.window = window
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        ones = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device)
        future, past = ones.triu(1), ones.tril(-self.window)
        queries = self.W_query(x).split(self.head_dim, dim=-1)
        keys = self.W_key(x).split(self.head_dim, dim=-1)
        values = self.W_value(x).split(self.head_dim, dim=-1)
        contexts = []
        for q, k, v in zip(queries, keys, values, strict=True):
            scores = q @ k.mT / self.head_dim**0.5
            weights = torch.softmax(scores.masked_fill(future | past, -torch.inf), dim=-1)
            contexts.append(self.dropout(weights) @ v)
        return self.out_proj(torch.cat(contexts, dim=-1))
