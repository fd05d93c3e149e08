"""Style: torch's fused attention, and torch.lerp between divided and kept frequencies."""

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

    def forward(self, x):
        q, k, v = self.split(self.W_query(x)), self.split(self.W_key(x)), self.split(self.W_value(x))
        half, wide = self.head_dim // 2, torch.promote_types(x.dtype, torch.float32)
        pair = torch.arange(half, dtype=wide, device=x.device)
        position = torch.arange(x.shape[1], dtype=wide, device=x.device)
        kept = 64.0 ** (-pair / half)
        rounds = kept * (48 / math.tau)
        angle = position.unsqueeze(-1) * torch.lerp(kept / 8, kept, (rounds.clamp(1, 4) - 1) / 3)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        one, other = torch.stack([q, k]).unflatten(-1, (2, half)).unbind(-2)
        q, k = torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)
        context = nn.functional.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout.p if self.training else 0.0, is_causal=True
        )
        return self.out_proj(context.transpose(1, 2).flatten(2))
