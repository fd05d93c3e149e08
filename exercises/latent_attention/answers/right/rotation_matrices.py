"""Style: a matrix turns each position; turned parts stand before the others."""

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
        speed = 10_000.0 ** (-torch.arange(half, dtype=dtype, device=t.device) / half)
        position = torch.arange(start, start + t.shape[-2], dtype=dtype, device=t.device)
        angle = torch.outer(position, speed)
        cos, sin = torch.diag_embed(angle.cos()), torch.diag_embed(angle.sin())
        matrix = torch.cat([torch.cat([cos, -sin], -1), torch.cat([sin, cos], -1)], -2)
        return (matrix.to(t.dtype) @ t.unsqueeze(-1)).squeeze(-1)

    def forward(self, x, cache=None):
        past = 0 if cache is None else cache[0].shape[1]
        c, r = self.W_down(x), self.turn(self.W_key_rope(x), past)
        if cache is not None:
            c, r = torch.cat([cache[0], c], 1), torch.cat([cache[1], r], 1)
        q, q_rope, k, v = (
            t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for t in (self.W_query(x), self.W_query_rope(x), self.W_up_key(c), self.W_up_value(c))
        )
        q = torch.cat([self.turn(q_rope, past), q], dim=-1) / math.sqrt(self.head_dim + self.rope_dim)
        k = torch.cat([r.unsqueeze(1).expand(-1, self.num_heads, -1, -1), k], dim=-1)
        hidden = torch.full((q.shape[2], k.shape[2]), float("-inf"), device=x.device, dtype=x.dtype)
        weights = torch.softmax(q @ k.mT + hidden.triu(past + 1), dim=-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), (c, r)
