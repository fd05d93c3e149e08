"""Style: positions, not frequencies, are scaled, for each pair by another number."""

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
        half = self.head_dim // 2
        speed = torch.tensor(64.0, dtype=wide, device=t.device).pow(
            -torch.arange(half, dtype=wide, device=t.device) / half
        )
        kept = torch.clamp((48 * speed / (2 * math.pi) - 1) / (4 - 1), 0, 1)
        places = torch.arange(t.shape[2], dtype=wide, device=t.device).unsqueeze(1)
        angle = (places * kept + places / 8 * (1 - kept)) * speed
        cos, sin = angle.cos(), angle.sin()
        matrix = torch.stack([cos, -sin, sin, cos], dim=-1).unflatten(-1, (2, 2)).to(t.dtype)
        # t: position, i: pair, r: row and c: column of its matrix
        return torch.einsum("tirc,bhtci->bhtri", matrix, t.unflatten(-1, (2, half))).flatten(-2)

    def forward(self, x):
        q, k, v = self.split(self.W_query(x)), self.split(self.W_key(x)), self.split(self.W_value(x))
        scores = self.rotate(q) @ self.rotate(k).mT / self.head_dim**0.5
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril()
        scores = scores.masked_fill(~visible, float("-inf"))
        powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        weights = self.dropout(powers / powers.sum(dim=-1, keepdim=True))
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
