"""Style: einsum with an axis for the groups, nothing repeated."""

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
        # b: batch, i: queries, j: keys, n: groups, g: heads of a group, d: width of a head
        query = self.W_query(x).unflatten(-1, (self.num_kv_heads, self.group, self.head_dim))
        key = self.W_key(x).unflatten(-1, (self.num_kv_heads, self.head_dim))
        value = self.W_value(x).unflatten(-1, (self.num_kv_heads, self.head_dim))
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = torch.einsum("bingd,bjnd->bngij", query, key) * self.head_dim**-0.5
        weights = self.dropout(scores.masked_fill(future, -torch.inf).softmax(dim=-1))
        return self.out_proj(torch.einsum("bngij,bjnd->bingd", weights, value).flatten(2))
