"""Style: both products of the scores apart, with einsum; the cache is a dictionary."""

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
        past = 0 if cache is None else cache["latents"].shape[1]
        c, r = self.W_down(x), self.turn(self.W_key_rope(x), past)
        if cache is not None:
            c, r = torch.cat([cache["latents"], c], 1), torch.cat([cache["turned"], r], 1)
        q = self.split(self.W_query(x))
        q_rope = self.turn(self.split(self.W_query_rope(x)).transpose(1, 2), past)
        scores = torch.einsum("bthd,bshd->bhts", q, self.split(self.W_up_key(c)))
        scores = scores + torch.einsum("bhtr,bsr->bhts", q_rope, r)
        scores = scores / (self.head_dim + self.rope_dim) ** 0.5
        n, t = c.shape[1], x.shape[1]
        future = torch.arange(n, device=x.device) > torch.arange(n - t, n, device=x.device)[:, None]
        weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        context = torch.einsum("bhts,bshd->bthd", weights, self.split(self.W_up_value(c)))
        return self.out_proj(context.flatten(2)), {"latents": c, "turned": r}

    def split(self, t):
        return t.unflatten(-1, (self.num_heads, -1))
