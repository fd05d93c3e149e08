"""Style: pairs as complex numbers, turned by a power of i."""

import math

import torch
from torch import nn


class LatentAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, d_latent, rope_dim):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads, self.rope_dim = num_heads, rope_dim
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=False)
        self.W_query_rope = nn.Linear(d_in, num_heads * rope_dim, bias=False)
        self.W_down = nn.Linear(d_in, d_latent, bias=False)
        self.W_up_key = nn.Linear(d_latent, d_out, bias=False)
        self.W_up_value = nn.Linear(d_latent, d_out, bias=False)
        self.W_key_rope = nn.Linear(d_in, rope_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def turn(self, t, start):
        dtype = torch.promote_types(t.dtype, torch.float32)
        half = self.rope_dim // 2
        pair = torch.complex(t[..., :half].to(dtype), t[..., half:].to(dtype))
        speed = 10_000.0 ** (-torch.arange(half, dtype=dtype, device=t.device) / half)
        position = torch.arange(start, start + t.shape[2], dtype=dtype, device=t.device)
        angle = position[:, None] * speed
        pair = pair * torch.polar(torch.ones_like(angle), angle)
        return torch.cat([pair.real, pair.imag], dim=-1).to(t.dtype)

    def forward(self, x, cache=None):
        past, old = (0, None) if cache is None else cache
        new = torch.cat([self.turn(self.W_key_rope(x)[:, None], past)[:, 0], self.W_down(x)], -1)
        kept = new if old is None else torch.cat([old, new], 1)
        k_rope, c = kept.split([self.rope_dim, kept.shape[-1] - self.rope_dim], dim=-1)
        q, q_rope, k, v = (
            t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for t in (self.W_query(x), self.W_query_rope(x), self.W_up_key(c), self.W_up_value(c))
        )
        scores = q @ k.mT + self.turn(q_rope, past) @ k_rope[:, None].mT
        t, n = scores.shape[-2:]
        future = torch.arange(n, device=x.device) > torch.arange(past, n, device=x.device)[:, None]
        scores = scores.div(math.sqrt(self.head_dim + self.rope_dim)).masked_fill(future, -torch.inf)
        context = scores.softmax(-1) @ v
        return self.out_proj(context.transpose(1, 2).reshape(*x.shape[:2], -1)), (past + t, kept)
