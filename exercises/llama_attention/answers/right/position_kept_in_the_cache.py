"""Style: the cache is an object that knows how long it is; scores by broadcasting."""

import torch
from torch import nn


class Past:
    def __init__(self, keys=None, values=None):
        self.keys, self.values = keys, values
        self.length = 0 if keys is None else keys.shape[2]

    def with_more(self, keys, values):
        if self.keys is None:
            return Past(keys, values)
        return Past(torch.cat([self.keys, keys], 2), torch.cat([self.values, values], 2))


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
        past = cache if cache is not None else Past()
        shape = (x.shape[0], x.shape[1], -1, self.head_dim)
        q = self.turn(self.W_query(x).view(shape).transpose(1, 2), past.length)
        k = self.turn(self.W_key(x).view(shape).transpose(1, 2), past.length)
        now = past.with_more(k, self.W_value(x).view(shape).transpose(1, 2))
        index = torch.arange(self.num_heads, device=x.device) // (self.num_heads // self.num_kv_heads)
        scores = q @ now.keys[:, index].mT * self.head_dim**-0.5
        row = torch.arange(past.length, now.length, device=x.device).unsqueeze(-1)
        scores = torch.where(torch.arange(now.length, device=x.device) <= row, scores, -torch.inf)
        context = torch.softmax(scores, dim=-1) @ now.values[:, index]
        return self.out_proj(context.transpose(1, 2).flatten(2)), now
