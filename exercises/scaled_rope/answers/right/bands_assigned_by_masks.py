"""Style: boolean masks for the bands; positions are counted from the last token, which is 0."""

import math

import torch
from torch import nn


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

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def rotate(self, t):
        wide = torch.promote_types(t.dtype, torch.float32)
        tokens, half = t.shape[2], self.head_dim // 2
        position = torch.arange(1 - tokens, 1, dtype=wide, device=t.device)
        speed = 64.0 ** (torch.arange(half, dtype=wide, device=t.device) / -half)
        wave = 2 * math.pi / speed
        slow, medium = wave > 48, (wave >= 12) & (wave <= 48)
        smooth = (48 / wave[medium] - 1) / 3
        scaled = speed.clone()
        scaled[slow] /= 8
        scaled[medium] = (1 - smooth) * speed[medium] / 8 + smooth * speed[medium]
        speed = scaled
        angle = torch.outer(position, speed)
        cos, sin = angle.cos().to(t.dtype), angle.sin().to(t.dtype)
        a, b = t.tensor_split(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    def forward(self, x):
        q, k, v = self.split(self.W_query(x)), self.split(self.W_key(x)), self.split(self.W_value(x))
        q, k = self.rotate(q), self.rotate(k)
        scores = q @ k.mT / self.head_dim**0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        weights = self.dropout(scores.masked_fill(future, float("-inf")).softmax(-1))
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
