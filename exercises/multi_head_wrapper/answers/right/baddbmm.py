"""Heads by baddbmm, with -inf in a buffer that is not saved."""

import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.scale = d_out**-0.5
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        mask = torch.full((context_length, context_length), -torch.inf).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        b, t, _ = x.shape
        mask = self.mask[:t, :t].to(x.dtype).expand(b, t, t)
        keys = self.W_key(x).transpose(1, 2)
        scores = torch.baddbmm(mask, self.W_query(x), keys, alpha=self.scale)
        weights = self.dropout(torch.softmax(scores, dim=-1))
        return torch.bmm(weights, self.W_value(x))


class MultiHeadAttentionWrapper(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.heads = nn.ModuleList(
            [
                CausalAttention(d_in, d_out, context_length, dropout, qkv_bias)
                for _ in range(num_heads)
            ]
        )

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=-1)
