"""The packed projections are unpacked in another order than they were packed. (named: queries_and_values_exchanged)"""

import torch
import torch.nn.functional as F
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.qkv_bias = qkv_bias
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.full((context_length, context_length), -torch.inf))
        self.mask.triu_(1)

    def project(self, x):
        layers = (self.W_query, self.W_key, self.W_value)
        weight = torch.cat([layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers]) if self.qkv_bias else None
        return F.linear(x, weight, bias)

    def forward(self, x):
        batch_size, seq_len, _ = x.shape
        packed = self.project(x).view(batch_size, seq_len, 3, self.num_heads, self.head_dim)
        v, k, q = packed.permute(2, 0, 3, 1, 4)
        energy = q @ k.transpose(-2, -1) / self.head_dim**0.5
        alpha = torch.softmax(energy + self.mask[:seq_len, :seq_len], dim=-1)
        mixed = self.dropout(alpha) @ v
        return self.out_proj(mixed.transpose(1, 2).flatten(2))
