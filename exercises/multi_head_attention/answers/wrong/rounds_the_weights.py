"""The weights are rounded to four decimals."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads:
            raise ValueError(f"{d_out=} is not divisible by {num_heads=}")
        self.num_heads = num_heads
        self.width = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        mask = torch.triu(torch.ones(context_length, context_length), 1)
        self.register_buffer("mask", mask.bool(), persistent=False)

    def one_head(self, xq, xk, xv):
        num_tokens = xq.shape[1]
        dots = xq @ xk.mT * self.width**-0.5
        dots = dots.masked_fill(self.mask[:num_tokens, :num_tokens], -torch.inf)
        weights = self.dropout(torch.softmax(dots, dim=-1).round(decimals=4))
        return weights @ xv

    def forward(self, x):
        xq, xk, xv = self.W_query(x), self.W_key(x), self.W_value(x)
        heads = []
        for i in range(self.num_heads):
            part = slice(i * self.width, (i + 1) * self.width)
            heads.append(self.one_head(xq[..., part], xk[..., part], xv[..., part]))
        return self.out_proj(torch.cat(heads, dim=-1))
