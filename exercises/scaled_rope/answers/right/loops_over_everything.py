"""In plain loops: over sequences, heads, queries and keys."""

import math

import torch
from torch import nn


class ScaledRotaryAttention(nn.Module):
    BASE = 64.0
    FACTOR = 8
    LENGTH = 48
    LOW, HIGH = 1, 4

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

    def frequencies(self, like):
        half = self.head_dim // 2
        dtype = torch.promote_types(like.dtype, torch.float32)
        pair = torch.arange(half, dtype=dtype, device=like.device)
        freq = self.BASE ** (-2 * pair / self.head_dim)
        wavelength = 2 * math.pi / freq
        kept = (self.LENGTH / wavelength - self.LOW) / (self.HIGH - self.LOW)
        blended = kept * freq + (1 - kept) * freq / self.FACTOR
        scaled = torch.where(wavelength > self.LENGTH / self.LOW, freq / self.FACTOR, blended)
        return torch.where(wavelength < self.LENGTH / self.HIGH, freq, scaled)

    def rotate(self, t):
        half = self.head_dim // 2
        freq = self.frequencies(t)
        position = torch.arange(t.shape[2], dtype=freq.dtype, device=t.device)
        angle = position[:, None] * freq
        cos, sin = angle.cos().to(t.dtype), angle.sin().to(t.dtype)
        a, b = t[..., :half], t[..., half:]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)

    def forward(self, x):
        b, t, _ = x.shape

        q = self.W_query(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.W_key(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.W_value(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        q, k = self.rotate(q), self.rotate(k)

        batch = []
        for n in range(b):
            heads = []
            for h in range(self.num_heads):
                rows = []
                for i in range(t):
                    scores = [q[n, h, i] @ k[n, h, j] / self.head_dim**0.5 for j in range(i + 1)]
                    weights = torch.softmax(torch.stack(scores), dim=0)
                    weights = self.dropout(weights)
                    row = 0
                    for j in range(i + 1):
                        row = row + weights[j] * v[n, h, j]
                    rows.append(row)
                heads.append(torch.stack(rows))
            batch.append(torch.cat(heads, dim=-1))
        context = torch.stack(batch)
        return self.out_proj(context)
