"""Style: each query sees what is kept up to its own token; nothing is masked."""

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
        latents, turned = cache or (None, None)
        past = 0 if latents is None else latents.shape[1]
        new = self.W_down(x), self.turn(self.W_key_rope(x), past)
        if latents is not None:
            new = torch.cat([latents, new[0]], 1), torch.cat([turned, new[1]], 1)
        q = self.W_query(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        q_rope = self.W_query_rope(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        q_rope, rows = self.turn(q_rope, past), []
        keys, values = (
            layer(new[0]).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for layer in (self.W_up_key, self.W_up_value)
        )
        for row in range(x.shape[1]):
            seen, here = past + row + 1, slice(row, row + 1)
            scores = q[:, :, here] @ keys[:, :, :seen].mT
            scores = scores + q_rope[:, :, here] @ new[1][:, None, :seen].mT
            weights = (scores / (self.head_dim + self.rope_dim) ** 0.5).softmax(-1)
            rows.append(weights @ values[:, :, :seen])
        return self.out_proj(torch.cat(rows, 2).transpose(1, 2).flatten(2)), new
