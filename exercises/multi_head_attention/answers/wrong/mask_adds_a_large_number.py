"""The sign of the mask is wrong, it favours the future. (named: hidden_favoured)"""

import math

import torch
from torch import nn


def causal_bias(length, dtype, device):
    bias = torch.full((length, length), 1e9, dtype=dtype, device=device)
    return bias.triu(1)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError(f"cannot give {num_heads} heads equal parts of {d_out}")
        self.num_heads = num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out, bias=True)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        xq = self._split(self.W_query(x))
        xk = self._split(self.W_key(x))
        xv = self._split(self.W_value(x))
        dots = xq.matmul(xk.transpose(-1, -2)) / math.sqrt(xq.size(-1))
        dots = dots + causal_bias(x.size(1), dots.dtype, dots.device)
        weights = self.dropout(dots.softmax(-1))
        return self.out_proj(self._merge(weights.matmul(xv)))

    def _split(self, y):
        b, num_tokens, d = y.shape
        return y.reshape(b, num_tokens, self.num_heads, d // self.num_heads).permute(0, 2, 1, 3)

    def _merge(self, y):
        b, h, num_tokens, d = y.shape
        return y.permute(0, 2, 1, 3).reshape(b, num_tokens, h * d)
