"""The scores are divided by the square root of context_length. (named: scale_by_context_length)"""

import math

import torch
from torch import nn


class CausalMask(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("tril", torch.tril(torch.ones(size, size)))

    def forward(self, scores):
        rows, columns = scores.shape[-2:]
        return scores.masked_fill(self.tril[:rows, :columns] == 0, float("-inf"))


class Attention(nn.Module):
    def __init__(self, size, dropout):
        super().__init__()
        self.size = size
        self.mask = CausalMask(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value):
        scores = query @ key.transpose(-2, -1) / math.sqrt(self.size)
        weights = torch.softmax(self.mask(scores), dim=-1)
        return self.dropout(weights) @ value


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
        context = self.attention(self.split(query), self.split(key), self.split(value))
        return self.out_proj(self.merge(context))

    def split(self, y):
        parts = y.chunk(self.num_heads, dim=-1)
        return torch.stack(parts, dim=1)

    def merge(self, y):
        return torch.cat(list(y.unbind(dim=1)), dim=-1)
