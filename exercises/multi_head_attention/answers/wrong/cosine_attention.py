"""Queries and keys are normalised, so scores are cosines. (named: cosine_scores)"""

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
        q = self._split(self.W_query(x))
        k = self._split(self.W_key(x))
        v = self._split(self.W_value(x))
        q, k = nn.functional.normalize(q, dim=-1), nn.functional.normalize(k, dim=-1)
        att = q.matmul(k.transpose(-1, -2)) / math.sqrt(q.size(-1))
        att = att + causal_bias(x.size(1), att.dtype, att.device)
        attn = self.dropout(att.softmax(-1))
        return self.out_proj(self._merge(attn.matmul(v)))

    def _split(self, y):
        bs, n, d = y.shape
        return y.reshape(bs, n, self.num_heads, d // self.num_heads).permute(0, 2, 1, 3)

    def _merge(self, y):
        bs, h, n, d = y.shape
        return y.permute(0, 2, 1, 3).reshape(bs, n, h * d)
