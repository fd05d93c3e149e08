"""Dropout acts on what the heads return, besides the attention weights."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError("num_heads must divide d_out")
        self.d_out = d_out
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads

        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        future = torch.triu(torch.ones(context_length, context_length), diagonal=1).bool()
        self.register_buffer("future", future)

    def forward(self, x):
        batch_size, seq_len, _ = x.shape

        # (batch_size, seq_len, d_out) -> (batch_size, num_heads, seq_len, head_dim)
        q = self.W_query(x).view(batch_size, seq_len, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.W_key(x).view(batch_size, seq_len, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.W_value(x).view(batch_size, seq_len, self.num_heads, self.head_dim).transpose(1, 2)

        energy = q @ k.transpose(2, 3) / self.head_dim**0.5
        energy = energy.masked_fill(self.future[:seq_len, :seq_len], float("-inf"))
        alpha = torch.softmax(energy, dim=-1)
        alpha = self.dropout(alpha)

        mixed = (alpha @ v).transpose(1, 2)
        mixed = mixed.contiguous().view(batch_size, seq_len, self.d_out)
        return self.out_proj(self.dropout(mixed))
