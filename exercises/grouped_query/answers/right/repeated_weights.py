"""Style: the rows of the layers are repeated, and what follows is plain."""

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

    def split(self, tokens):
        return tokens.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def project(self, layer, x):
        parts = [layer.weight] if layer.bias is None else [layer.weight, layer.bias]
        blocks = (part.unflatten(0, (self.num_kv_heads, -1)) for part in parts)
        repeated = (t.repeat_interleave(self.group, dim=0).flatten(0, 1) for t in blocks)
        return nn.functional.linear(x, *repeated)

    def forward(self, x):
        q = self.split(self.W_query(x))
        k, v = self.split(self.project(self.W_key, x)), self.split(self.project(self.W_value, x))
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = (q @ k.mT).div(self.head_dim**0.5).masked_fill(future, -torch.inf)
        weights = self.dropout(scores.softmax(dim=-1))
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
