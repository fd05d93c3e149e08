"""Style: keys are kept as they are, and all are turned in each call."""

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

    def turn(self, t, start):
        dtype = torch.promote_types(t.dtype, torch.float32)
        half = self.head_dim // 2
        speed = 10_000.0 ** (-torch.arange(half, dtype=dtype, device=t.device) / half)
        position = torch.arange(start, start + t.shape[2], dtype=dtype, device=t.device)
        angle = torch.outer(position, speed)
        cos, sin = angle.cos().to(t.dtype), angle.sin().to(t.dtype)
        a, b = t[..., :half], t[..., half:]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)

    def forward(self, x, cache=None):
        b, t, _ = x.shape
        q = self.W_query(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.W_key(x).view(b, t, self.num_kv_heads, self.head_dim).transpose(1, 2)
        v = self.W_value(x).view(b, t, self.num_kv_heads, self.head_dim).transpose(1, 2)
        cache = {"k": k, "v": v} if cache is None else {
            "k": torch.cat([cache["k"], k], dim=2),
            "v": torch.cat([cache["v"], v], dim=2),
        }
        s = cache["k"].shape[2]
        q, k = self.turn(q, s - t), self.turn(cache["k"], 0)
        group = self.num_heads // self.num_kv_heads
        q = q.unflatten(1, (self.num_kv_heads, group))
        scores = q @ k.unsqueeze(2).mT / self.head_dim**0.5
        i = torch.arange(s - t, s, device=x.device)[:, None]
        weights = scores.masked_fill(torch.arange(s, device=x.device) > i, -torch.inf).softmax(-1)
        context = (weights @ cache["v"].unsqueeze(2)).flatten(1, 2)
        return self.out_proj(context.transpose(1, 2).flatten(2)), cache
