"""Style: wavelengths become longer, and a matrix for every position rotates."""

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

    def matrices(self, tokens, like):
        half = self.head_dim // 2
        dtype = torch.promote_types(like.dtype, torch.float32)
        pair = torch.arange(half, dtype=dtype, device=like.device)
        position = torch.arange(tokens, dtype=dtype, device=like.device)
        wavelength = 2 * math.pi * 64.0 ** (2 * pair / self.head_dim)
        smooth = ((48 / wavelength - 1.0) / (4.0 - 1.0)).clamp(0.0, 1.0)
        wavelength = wavelength * 8 / (1 + 7 * smooth)
        angle = 2 * math.pi * position[:, None] / wavelength
        cos, sin = torch.diag_embed(angle.cos()), torch.diag_embed(angle.sin())
        rows = torch.cat([cos, -sin], dim=-1), torch.cat([sin, cos], dim=-1)
        return torch.cat(rows, dim=-2).to(like.dtype)

    def forward(self, x):
        q, k, v = self.split(self.W_query(x)), self.split(self.W_key(x)), self.split(self.W_value(x))
        turning = self.matrices(x.shape[1], q)
        q = torch.einsum("tde,bhte->bhtd", turning, q)
        k = torch.einsum("tde,bhte->bhtd", turning, k)
        scores = q @ k.mT / self.head_dim**0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        weights = self.dropout(scores.masked_fill(future, float("-inf")).softmax(-1))
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
