"""Style: a sum over two length axes, without a matrix product."""

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

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x, y):
        q = self.split(self.W_query(x)).unsqueeze(3)
        k, v = self.split(self.W_key(y)).unsqueeze(2), self.split(self.W_value(y)).unsqueeze(2)
        scores = (q * k).sum(-1) / self.head_dim**0.5
        weights = self.dropout(torch.softmax(scores, dim=-1))
        context = (weights.unsqueeze(-1) * v).sum(3)
        return self.out_proj(context.transpose(1, 2).flatten(2))
