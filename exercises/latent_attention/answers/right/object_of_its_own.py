"""Style: a cache is an object with room for more tokens than it holds."""

import torch
from torch import nn


class Kept:
    def __init__(self, latents, turned, length):
        self.latents, self.turned, self.length = latents, turned, length

    @classmethod
    def extend(cls, old, *new):
        past = 0 if old is None else old.length
        length, wider = past + new[0].shape[1], []
        for number, part in enumerate(new):
            room = part.new_zeros(part.shape[0], 2 * length, part.shape[2])
            if old is not None:
                room[:, :past] = (old.latents, old.turned)[number][:, :past]
            room[:, past:length] = part
            wider.append(room)
        return cls(*wider, length)


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
        past = 0 if cache is None else cache.length
        cache = Kept.extend(cache, self.W_down(x), self.turn(self.W_key_rope(x), past))
        latents, turned = cache.latents[:, : cache.length], cache.turned[:, : cache.length]
        q = torch.cat([self.split(self.W_query(x)), self.turn(self.split(self.W_query_rope(x)), past)], -1)
        k, v = self.split(self.W_up_key(latents)), self.split(self.W_up_value(latents))
        k = torch.cat([k, turned.unsqueeze(1).expand(*k.shape[:3], -1)], -1)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(past + 1)
        weights = torch.exp(torch.log_softmax(scores.masked_fill(future, float("-inf")), dim=-1))
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), cache

    def split(self, t):
        return t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
