"""Style: the shared key is kept as it is, and turned in every call."""

import torch
import torch.nn.functional as F
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
        new = F.linear(x, torch.cat([self.W_down.weight, self.W_key_rope.weight]))
        kept = new if cache is None else torch.cat([cache, new], 1)
        past, width = kept.shape[1] - x.shape[1], kept.shape[2] - self.rope_dim
        c, r = kept[..., :width], self.turn(kept[..., width:], 0)
        q, q_rope, k, v = (
            t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for t in (self.W_query(x), self.W_query_rope(x), self.W_up_key(c), self.W_up_value(c))
        )
        scores = q @ k.mT + self.turn(q_rope, past) @ r[:, None].mT
        scores = scores / (self.head_dim + self.rope_dim) ** 0.5
        place = torch.arange(kept.shape[1], device=x.device)
        scores = scores.masked_fill(place > place[past:, None], float("-inf"))
        exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
        context = exponentials / exponentials.sum(-1, keepdim=True) @ v
        return self.out_proj(context.transpose(1, 2).flatten(2)), kept
