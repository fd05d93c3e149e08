"""Style: a loop over the groups, whose heads stand one after the other like tokens."""

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
        b, t, _ = x.shape
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        groups = self.W_query(x).chunk(self.num_kv_heads, dim=-1)
        keys = self.W_key(x).chunk(self.num_kv_heads, dim=-1)
        values = self.W_value(x).chunk(self.num_kv_heads, dim=-1)
        contexts = []
        for q, k, v in zip(groups, keys, values, strict=True):
            # (batch, tokens, group * head_dim) -> (batch, group * tokens, head_dim)
            q = q.unflatten(-1, (self.group, self.head_dim)).transpose(1, 2).flatten(1, 2)
            scores = (q @ k.mT / self.head_dim**0.5).unflatten(1, (self.group, t))
            weights = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
            mixed = self.dropout(weights).flatten(1, 2) @ v
            contexts.append(mixed.unflatten(1, (self.group, t)).transpose(1, 2).flatten(2))
        return self.out_proj(torch.cat(contexts, dim=-1))
