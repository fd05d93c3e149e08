"""Style: pairs as complex numbers, turned by a power of i; a loop over groups."""

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
        pair = torch.complex(t[..., :half].to(dtype), t[..., half:].to(dtype))
        speed = 10_000.0 ** (-torch.arange(half, dtype=dtype, device=t.device) / half)
        position = torch.arange(start, start + t.shape[1], dtype=dtype, device=t.device)
        angle = (position[:, None] * speed)[:, None]
        pair = pair * torch.polar(torch.ones_like(angle), angle)
        return torch.cat([pair.real, pair.imag], dim=-1).to(t.dtype)

    def forward(self, x, cache=None):
        dim, group = self.head_dim, self.num_heads // self.num_kv_heads
        q = self.W_query(x).unflatten(-1, (self.num_heads, dim))
        k = self.W_key(x).unflatten(-1, (self.num_kv_heads, dim))
        v = self.W_value(x).unflatten(-1, (self.num_kv_heads, dim))
        past, old = (0, None) if cache is None else cache
        q, k = self.turn(q, past), self.turn(k, past)
        if old is not None:
            k, v = torch.cat([old[0], k], 1), torch.cat([old[1], v], 1)
        t, s = q.shape[1], k.shape[1]
        future = torch.arange(s, device=x.device) > torch.arange(past, s, device=x.device)[:, None]
        contexts = []
        for h in range(self.num_heads):
            scores = torch.einsum("bid,bjd->bij", q[:, :, h], k[:, :, h // group]) / dim**0.5
            weights = scores.masked_fill(future, -torch.inf).softmax(-1)
            contexts.append(weights @ v[:, :, h // group])
        return self.out_proj(torch.cat(contexts, dim=-1)), (past + t, (k, v))
