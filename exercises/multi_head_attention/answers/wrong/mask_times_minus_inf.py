"""The mask is multiplied by minus infinity, and zero times infinity is NaN."""

import math

import torch
from torch import nn


def causal_bias(length, dtype, device):
    future = torch.ones(length, length, dtype=dtype, device=device).triu(1)
    return future * -math.inf


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
        q = self._split(self.W_query(x))
        k = self._split(self.W_key(x))
        v = self._split(self.W_value(x))
        scores = q.matmul(k.transpose(-1, -2)) / math.sqrt(q.size(-1))
        scores = scores + causal_bias(x.size(1), scores.dtype, scores.device)
        weights = self.dropout(scores.softmax(-1))
        return self.out_proj(self._merge(weights.matmul(v)))

    def _split(self, y):
        b, t, d = y.shape
        return y.reshape(b, t, self.num_heads, d // self.num_heads).permute(0, 2, 1, 3)

    def _merge(self, y):
        b, h, t, d = y.shape
        return y.permute(0, 2, 1, 3).reshape(b, t, h * d)
