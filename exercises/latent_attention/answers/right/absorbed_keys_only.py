"""Style: queries go through W_up_key, values are made; one tensor is kept."""

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
        past = 0 if cache is None else cache.shape[1]
        new = torch.cat([self.W_down(x), self.turn(self.W_key_rope(x), past)], dim=-1)
        kept = new if cache is None else torch.cat([cache, new], dim=1)
        latent = kept[..., : -self.rope_dim]
        up = self.W_up_key.weight.unflatten(0, (self.num_heads, -1))
        q = torch.einsum("bthd,hdc->bhtc", self.W_query(x).unflatten(-1, (self.num_heads, -1)), up)
        r = self.W_query_rope(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        q = torch.cat([q, self.turn(r, past)], dim=-1)  # compared with what is kept, as it is
        scores = q @ kept.unsqueeze(1).mT / (self.head_dim + self.rope_dim) ** 0.5
        place = torch.arange(kept.shape[1], device=x.device)
        scores = scores.masked_fill(place > place[past:, None], float("-inf"))
        v = self.W_up_value(latent).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        return self.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)), kept
