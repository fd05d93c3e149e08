"""Style: a loop over the heads, each of which looks up its keys."""

import torch
from torch import nn


class GroupedQueryAttention(nn.Module):
    """Neighbouring heads share keys and values."""

    def __init__(self, d_in, d_out, dropout, num_heads, num_kv_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        assert num_heads % num_kv_heads == 0, "num_kv_heads must divide num_heads"
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.group = num_heads // num_kv_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        queries = self.W_query(x).split(self.head_dim, dim=-1)
        keys = self.W_key(x).split(self.head_dim, dim=-1)
        values = self.W_value(x).split(self.head_dim, dim=-1)
        contexts = []
        for head, q in enumerate(queries):
            shared = head // self.group
            scores = q @ keys[shared].mT / self.head_dim**0.5
            weights = torch.softmax(scores.masked_fill(future, -torch.inf), dim=-1)
            contexts.append(self.dropout(weights) @ values[shared])
        return self.out_proj(torch.cat(contexts, dim=-1))
