"""Style: the distance is one more coordinate of queries and keys."""

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

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.W_query(x)), self.split(self.W_key(x)), self.split(self.W_value(x))
        wide = torch.promote_types(x.dtype, torch.float32)
        b, h, t, _ = q.shape
        head = torch.arange(1, h + 1, dtype=wide, device=x.device)
        slopes = (2 ** (-8 * head / h)).view(1, h, 1, 1).expand(b, h, t, 1)
        position = torch.arange(t, dtype=wide, device=x.device).view(1, 1, t, 1).expand(b, h, t, 1)
        one = torch.ones_like(position)
        q = torch.cat([q.to(wide) / self.head_dim**0.5, slopes, -slopes * position], dim=-1)
        k = torch.cat([k.to(wide), position, one], dim=-1)
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        weights = (q @ k.mT).masked_fill(future, float("-inf")).softmax(-1)
        weights = self.dropout(weights.to(x.dtype))
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
