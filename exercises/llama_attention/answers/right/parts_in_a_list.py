"""Style: a part of the cache for each call, in a new list; scores by einsum over groups."""

import torch
from torch import nn


class LlamaAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        assert num_heads % num_kv_heads == 0, "num_kv_heads must divide num_heads"
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=False)
        self.W_key = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.W_value = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def turn(self, t, start, count):
        dtype = torch.promote_types(t.dtype, torch.float32)
        half = self.head_dim // 2
        speed = 10_000.0 ** (-torch.arange(half, dtype=dtype, device=t.device) / half)
        place = torch.arange(start, start + t.shape[2], dtype=dtype, device=t.device)
        angle = (place[:, None] * speed)[:, None]
        cos, sin = angle.cos().to(t.dtype), angle.sin().to(t.dtype)
        heads = t.unflatten(-1, (count, self.head_dim))
        a, b = heads.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(3)

    def forward(self, x, cache=None):
        parts = list(cache or [])
        start = sum(keys.shape[1] for keys, _ in parts)
        g = self.num_heads // self.num_kv_heads
        q = self.W_query(x).view(*x.shape[:2], self.num_kv_heads, g, self.head_dim)
        k = self.W_key(x).view(*x.shape[:2], self.num_kv_heads, self.head_dim)
        v = self.W_value(x).view(*x.shape[:2], self.num_kv_heads, self.head_dim)
        q = self.turn(q.permute(0, 2, 1, 3, 4).flatten(3), start, g)
        k = self.turn(k.permute(0, 2, 1, 3), start, 1).transpose(1, 2)
        parts.append((k, v))
        keys, values = (torch.cat(part, dim=1) for part in zip(*parts))
        q = q.unflatten(-1, (g, self.head_dim))
        scores = torch.einsum("bnigd,bjnd->bngij", q, keys) / self.head_dim**0.5
        i = torch.arange(start, keys.shape[1], device=x.device)[:, None]
        scores = scores.masked_fill(torch.arange(keys.shape[1], device=x.device) > i, -torch.inf)
        context = torch.einsum("bngij,bjnd->bingd", scores.softmax(-1), values)
        return self.out_proj(context.flatten(2)), parts
