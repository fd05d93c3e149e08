"""Style: for each query all keys are rotated, by how far back they lie."""

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

    def rotate(self, t, position):
        half, wide = self.head_dim // 2, torch.promote_types(t.dtype, torch.float32)
        pair = torch.arange(half, dtype=wide, device=t.device)
        theta = torch.exp(-2 * pair / self.head_dim * math.log(64))
        gamma = torch.relu((48 / (2 * math.pi) * theta - 1) / 3).clamp(max=1)
        angle = position.to(wide)[:, None] * ((1 - gamma) * theta / 8 + gamma * theta)
        cos, sin = angle.cos().to(t.dtype), angle.sin().to(t.dtype)
        a, b = t.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    def forward(self, x):
        q, k, v = self.split(self.W_query(x)), self.split(self.W_key(x)), self.split(self.W_value(x))
        position, read = torch.arange(x.shape[1], device=x.device), []
        for i in range(x.shape[1]):
            seen = slice(0, i + 1)
            near = self.rotate(k[:, :, seen], position[seen] - i)
            scores = q[:, :, i : i + 1] @ near.mT / self.head_dim**0.5
            read.append(self.dropout(scores.softmax(dim=-1)) @ v[:, :, seen])
        return self.out_proj(torch.cat(read, dim=2).transpose(1, 2).flatten(2))
