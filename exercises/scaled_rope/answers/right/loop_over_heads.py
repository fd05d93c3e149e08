"""Style: loops over heads and pairs, with a function for the frequency of one pair."""

import math

import torch
from torch import nn


def scale(theta):
    rounds = 48 * theta / (2 * math.pi)
    if rounds >= 4:
        return theta
    if rounds <= 1:
        return theta / 8
    return theta / 8 + (rounds - 1) / (4 - 1) * (theta - theta / 8)


class ScaledRotaryAttention(nn.Module):
    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def rotate(self, t):
        # t: batch, tokens, head_dim
        half, wide = self.head_dim // 2, torch.promote_types(t.dtype, torch.float32)
        turned = [None] * self.head_dim
        position = torch.arange(t.shape[1], dtype=wide, device=t.device)
        for i in range(half):
            angle = position * scale(64.0 ** (-2 * i / self.head_dim))
            cos, sin = angle.cos().to(t.dtype), angle.sin().to(t.dtype)
            turned[i] = t[..., i] * cos - t[..., i + half] * sin
            turned[i + half] = t[..., i + half] * cos + t[..., i] * sin
        return torch.stack(turned, dim=-1)

    def forward(self, x):
        queries = self.W_query(x).split(self.head_dim, dim=-1)
        keys = self.W_key(x).split(self.head_dim, dim=-1)
        values = self.W_value(x).split(self.head_dim, dim=-1)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        contexts = []
        for q, k, v in zip(queries, keys, values, strict=True):
            scores = self.rotate(q) @ self.rotate(k).mT / self.head_dim**0.5
            weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
            contexts.append(self.dropout(weights) @ v)
        return self.out_proj(torch.cat(contexts, dim=-1))
