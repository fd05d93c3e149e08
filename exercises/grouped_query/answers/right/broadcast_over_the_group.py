"""Style: an axis of one beside the groups, over which the product broadcasts."""

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
        shared = (self.num_kv_heads, 1, self.head_dim)
        q = self.W_query(x).unflatten(-1, (self.num_kv_heads, self.group, self.head_dim))
        q = q.permute(0, 2, 3, 1, 4)
        k = self.W_key(x).unflatten(-1, shared).permute(0, 2, 3, 1, 4)
        v = self.W_value(x).unflatten(-1, shared).permute(0, 2, 3, 1, 4)
        place = torch.arange(x.shape[1], device=x.device)
        scores = torch.matmul(q, k.mT) / self.head_dim**0.5
        scores = scores.masked_fill(place > place[:, None], -torch.inf)
        context = torch.matmul(self.dropout(scores.softmax(dim=-1)), v)
        return self.out_proj(context.permute(0, 3, 1, 2, 4).flatten(2))
