"""A tanh follows the output projection. (named: activation_on_output)"""

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
        bs, t, _ = x.shape
        n = bs * self.num_heads

        def flat(y):
            y = y.reshape(bs, t, self.num_heads, self.head_dim)
            return y.transpose(1, 2).reshape(n, t, self.head_dim)

        q, k, v = flat(self.W_query(x)), flat(self.W_key(x)), flat(self.W_value(x))
        mask = self.mask[:t, :t].to(q.dtype).expand(n, t, t)
        att = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=1 / math.sqrt(self.head_dim))
        attn = self.dropout(torch.softmax(att, dim=2))
        z = torch.bmm(attn, v)
        z = z.reshape(bs, self.num_heads, t, self.head_dim).transpose(1, 2)
        return torch.tanh(self.out_proj(z.reshape(bs, t, self.d_out)))
