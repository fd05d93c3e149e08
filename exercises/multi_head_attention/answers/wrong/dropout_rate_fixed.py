"""The dropout argument is ignored, a tenth is always dropped. (named: dropout_of_another_rate)"""

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
        self.dropout = nn.Dropout(0.1)
        mask = torch.full((context_length, context_length), float("-inf")).triu(1)
        self.register_buffer("mask", mask)

    def forward(self, x):
        B, T, _ = x.shape
        n = B * self.num_heads

        def flat(y):
            y = y.reshape(B, T, self.num_heads, self.head_dim)
            return y.transpose(1, 2).reshape(n, T, self.head_dim)

        query, key, value = flat(self.W_query(x)), flat(self.W_key(x)), flat(self.W_value(x))
        mask = self.mask[:T, :T].to(query.dtype).expand(n, T, T)
        logits = torch.baddbmm(mask, query, key.transpose(1, 2), alpha=1 / math.sqrt(self.head_dim))
        probs = self.dropout(torch.softmax(logits, dim=2))
        ctx = torch.bmm(probs, value)
        ctx = ctx.reshape(B, self.num_heads, T, self.head_dim).transpose(1, 2)
        return self.out_proj(ctx.reshape(B, T, self.d_out))
