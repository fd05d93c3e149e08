"""Style: torch's fused attention, which shares keys itself."""

import torch
import torch.nn.functional as F
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

    def split(self, t):
        return t.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def forward(self, x, cache=None):
        q, k, v = self.split(self.W_query(x)), self.split(self.W_key(x)), self.split(self.W_value(x))
        start = cache[0].size(-2) if cache else 0
        q, k = self.turn(q, start), self.turn(k, start)
        if cache:
            k, v = torch.cat((cache[0], k), -2), torch.cat((cache[1], v), -2)
        allowed = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool, device=x.device).tril(start)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, enable_gqa=True)
        return self.out_proj(out.transpose(1, 2).flatten(2)), [k, v]
