"""The biases exist, but the packed product leaves them out. (named: bias_missing)"""

import torch
import torch.nn.functional as F
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
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
        return F.linear(x, weight)

    def forward(self, x):
        b, num_tokens, _ = x.shape
        packed = self.project(x).view(b, num_tokens, 3, self.num_heads, self.head_dim)
        xq, xk, xv = packed.permute(2, 0, 3, 1, 4)
        dots = xq @ xk.transpose(-2, -1) / self.head_dim**0.5
        weights = torch.softmax(dots + self.mask[:num_tokens, :num_tokens], dim=-1)
        result = self.dropout(weights) @ xv
        return self.out_proj(result.transpose(1, 2).flatten(2))
