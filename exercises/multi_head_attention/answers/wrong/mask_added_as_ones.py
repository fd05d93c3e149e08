"""The triangle of ones is added to the scores. (named: mask_added_as_ones)"""

import math

import torch
from torch import nn


class CausalMask(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("tril", torch.tril(torch.ones(size, size)))

    def forward(self, energy):
        rows, columns = energy.shape[-2:]
        return energy + self.tril[:rows, :columns]


class Attention(nn.Module):
    def __init__(self, size, dropout):
        super().__init__()
        self.mask = CausalMask(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value):
        energy = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])
        alpha = torch.softmax(self.mask(energy), dim=-1)
        return self.dropout(alpha) @ value


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0
        self.num_heads = num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.attention = Attention(context_length, dropout)
        self.out_proj = nn.Linear(d_out, d_out)

    def forward(self, x):
        query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)
        mixed = self.attention(self.split(query), self.split(key), self.split(value))
        return self.out_proj(self.merge(mixed))

    def split(self, y):
        parts = y.chunk(self.num_heads, dim=-1)
        return torch.stack(parts, dim=1)

    def merge(self, y):
        return torch.cat(list(y.unbind(dim=1)), dim=-1)
