"""Style: pairs are complex numbers, and the share that is kept is clamped."""

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
        dtype = torch.promote_types(t.dtype, torch.float32)
        pair = torch.arange(self.head_dim // 2, dtype=dtype, device=t.device)
        position = torch.arange(t.shape[-2], dtype=dtype, device=t.device)
        frequency = 64.0 ** (-2 * pair / self.head_dim)
        share = ((48 * frequency / (2 * math.pi) - 1) / 3).clamp(min=0, max=1)
        angle = torch.outer(position, frequency * (share + (1 - share) / 8))
        unit = torch.polar(torch.ones_like(angle), angle)
        real, imaginary = t.to(dtype).chunk(2, dim=-1)
        turned = torch.complex(real.contiguous(), imaginary.contiguous()) * unit
        return torch.cat([turned.real, turned.imag], dim=-1).to(t.dtype)

    def forward(self, x):
        q, k, v = self.split(self.W_query(x)), self.split(self.W_key(x)), self.split(self.W_value(x))
        q, k = self.rotate(q), self.rotate(k)
        scores = q @ k.mT / self.head_dim**0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        weights = self.dropout(scores.masked_fill(future, float("-inf")).softmax(-1))
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
