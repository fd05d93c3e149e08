"""Style: helper methods, keys and values from one product of joined weights."""

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

    def project(self, y):
        weight = torch.cat([self.W_key.weight, self.W_value.weight])
        bias = None
        if self.W_key.bias is not None:
            bias = torch.cat([self.W_key.bias, self.W_value.bias])
        return nn.functional.linear(y, weight, bias).chunk(2, dim=-1)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x, y):
        keys, values = map(self.split, self.project(y))
        queries = self.split(self.W_query(x))
        weights = torch.softmax(queries @ keys.mT / self.head_dim**0.5, dim=-1)
        return self.out_proj((self.dropout(weights) @ values).transpose(1, 2).flatten(2))
