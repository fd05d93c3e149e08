"""A batch of one comes back without its batch axis."""

import math

import torch
from torch import nn


def causal_bias(length, dtype, device):
    bias = torch.full((length, length), torch.finfo(dtype).min, dtype=dtype, device=device)
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
        query = self._split(self.W_query(x))
        key = self._split(self.W_key(x))
        value = self._split(self.W_value(x))
        logits = query.matmul(key.transpose(-1, -2)) / math.sqrt(query.size(-1))
        logits = logits + causal_bias(x.size(1), logits.dtype, logits.device)
        probs = self.dropout(logits.softmax(-1))
        return self.out_proj(self._merge(probs.matmul(value))).squeeze(0)

    def _split(self, y):
        B, T, d = y.shape
        return y.reshape(B, T, self.num_heads, d // self.num_heads).permute(0, 2, 1, 3)

    def _merge(self, y):
        B, h, T, d = y.shape
        return y.permute(0, 2, 1, 3).reshape(B, T, h * d)
