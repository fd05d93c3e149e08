"""Style: the cache holds projections before the split, and everything is turned by one table."""

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

    def forward(self, x, cache=None):
        k, v = self.W_key(x), self.W_value(x)
        if cache is not None:
            k, v = torch.cat([cache["k"], k], dim=1), torch.cat([cache["v"], v], dim=1)
        b, s, _ = k.shape
        t = x.shape[1]
        cos, sin = self.tables(s, x)
        q = self.W_query(x).view(b, t, self.num_kv_heads, -1, self.head_dim)
        keys = k.view(b, s, self.num_kv_heads, self.head_dim)
        q = self.turn(q, cos[-t:, None, None], sin[-t:, None, None])
        keys = self.turn(keys, cos[:, None], sin[:, None])
        scores = torch.einsum("bqngd,bknd->bngqk", q, keys) / self.head_dim**0.5
        hidden = torch.ones(s, s, device=x.device).triu(1)[-t:].bool()
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        values = v.view(b, s, self.num_kv_heads, self.head_dim)
        context = torch.einsum("bngqk,bknd->bqngd", weights, values)
        return self.out_proj(context.reshape(b, t, -1)), {"k": k, "v": v}

    def tables(self, length, x):
        dtype = torch.promote_types(x.dtype, torch.float32)
        half = self.head_dim // 2
        speed = 10_000.0 ** (-torch.arange(half, dtype=dtype, device=x.device) / half)
        angle = torch.arange(length, dtype=dtype, device=x.device)[:, None] * speed
        return angle.cos().to(x.dtype), angle.sin().to(x.dtype)

    def turn(self, t, cos, sin):
        a, b = t.tensor_split(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
