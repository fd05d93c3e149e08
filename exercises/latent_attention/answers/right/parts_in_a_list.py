"""Style: a cache is a list with the part of every call; their keys are made anew in each."""

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
        cos, sin = angle.cos().to(t.dtype), angle.sin().to(t.dtype)
        a, b = t[..., :half], t[..., half:]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)

    def forward(self, x, cache=None):
        parts = list(cache or [])
        past = sum(part[0].shape[1] for part in parts)
        parts.append((self.W_down(x), self.turn(self.W_key_rope(x), past)))
        keys = [torch.cat([self.split(self.W_up_key(c)), self.repeat(r)], -1) for c, r in parts]
        values = [self.split(self.W_up_value(c)) for c, _ in parts]
        q_rope = self.turn(self.split(self.W_query_rope(x)), past)
        q = torch.cat([self.split(self.W_query(x)), q_rope], -1) * self.scale
        scores = q @ torch.cat(keys, 2).mT
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril(past)
        weights = torch.where(visible, scores, float("-inf")).softmax(-1)
        context = weights @ torch.cat(values, 2)
        return self.out_proj(context.transpose(1, 2).flatten(2)), parts

    @property
    def scale(self):
        return (self.head_dim + self.rope_dim) ** -0.5

    def split(self, t):
        return t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def repeat(self, r):
        return r.unsqueeze(1).repeat(1, self.num_heads, 1, 1)
