"""Style: keys and values are never made: queries go through W_up_key, averages through W_up_value."""

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
        heads, dim = self.num_heads, self.head_dim
        past = 0 if cache is None else cache[0].shape[1]
        latent, turned = self.W_down(x), self.turn(self.W_key_rope(x), past)
        if cache is not None:
            latent = torch.cat([cache[0], latent], 1)
            turned = torch.cat([cache[1], turned], 1)
        q = self.W_query(x).unflatten(-1, (heads, dim)).transpose(1, 2)
        r = self.turn(self.W_query_rope(x).unflatten(-1, (heads, -1)).transpose(1, 2), past)
        q = q @ self.W_up_key.weight.view(heads, dim, -1)  # of the width of a latent
        scores = q @ latent.mT.unsqueeze(1) + r @ turned.mT.unsqueeze(1)
        scores = scores * (dim + self.rope_dim) ** -0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(past + 1)
        weights = scores.masked_fill(future, -torch.inf).softmax(-1)
        mixed = weights @ latent.unsqueeze(1)
        context = mixed @ self.W_up_value.weight.view(heads, dim, -1).mT
        return self.out_proj(context.transpose(1, 2).flatten(2)), (latent, turned)
