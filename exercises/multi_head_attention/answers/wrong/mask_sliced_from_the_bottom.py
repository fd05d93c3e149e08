"""The mask takes its last rows but its first columns."""

import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads:
            raise ValueError("d_out must be divisible by num_heads")
        self.d_out = d_out
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        mask = torch.full((context_length, context_length), float("-inf")).triu(1)
        self.register_buffer("mask", mask)

    def forward(self, x):
        batch_size, seq_len, _ = x.shape
        n = batch_size * self.num_heads

        def flat(y):
            y = y.reshape(batch_size, seq_len, self.num_heads, self.head_dim)
            return y.transpose(1, 2).reshape(n, seq_len, self.head_dim)

        q, k, v = flat(self.W_query(x)), flat(self.W_key(x)), flat(self.W_value(x))
        mask = self.mask[-seq_len:, :seq_len].to(q.dtype).expand(n, seq_len, seq_len)
        energy = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=1 / math.sqrt(self.head_dim))
        weights = self.dropout(torch.softmax(energy, dim=2))
        mixed = torch.bmm(weights, v)
        mixed = mixed.reshape(batch_size, self.num_heads, seq_len, self.head_dim).transpose(1, 2)
        return self.out_proj(mixed.reshape(batch_size, seq_len, self.d_out))
