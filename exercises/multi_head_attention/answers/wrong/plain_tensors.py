"""The projections are plain tensors that nothing can train, move or save."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0
        self.h, self.d = num_heads, d_out // num_heads
        self.W_query = torch.randn(d_in, d_out) / d_in**0.5
        self.W_key = torch.randn(d_in, d_out) / d_in**0.5
        self.W_value = torch.randn(d_in, d_out) / d_in**0.5
        self.b_qkv = torch.zeros(3, d_out) if qkv_bias else torch.zeros(3, 1)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.tril(torch.ones(context_length, context_length)))

    def forward(self, x):
        b, t, _ = x.shape
        q = (x @ self.W_query + self.b_qkv[0]).view(b, t, self.h, self.d).transpose(1, 2)
        k = (x @ self.W_key + self.b_qkv[1]).view(b, t, self.h, self.d).transpose(1, 2)
        v = (x @ self.W_value + self.b_qkv[2]).view(b, t, self.h, self.d).transpose(1, 2)
        att = (q @ k.transpose(2, 3)) * self.d**-0.5
        att = att.masked_fill(self.mask[:t, :t] == 0, float("-inf")).softmax(dim=-1)
        z = self.dropout(att) @ v
        return self.out_proj(z.transpose(1, 2).reshape(b, t, self.h * self.d))
