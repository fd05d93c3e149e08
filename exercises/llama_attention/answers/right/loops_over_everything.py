"""In plain loops: over sequences, heads, queries and keys."""

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
        past = 0 if cache is None else cache[0].shape[2]
        q, k = self.turn(q, past), self.turn(k, past)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        kept = k, v
        group = self.num_heads // self.num_kv_heads
        batch = []
        for n in range(b):
            heads = []
            for h in range(self.num_heads):
                rows = []
                for i in range(t):
                    scores = [q[n, h, i] @ k[n, h // group, j] / self.head_dim**0.5 for j in range(past + i + 1)]
                    weights = torch.softmax(torch.stack(scores), dim=0)
                    row = 0
                    for j in range(past + i + 1):
                        row = row + weights[j] * v[n, h // group, j]
                    rows.append(row)
                heads.append(torch.stack(rows))
            batch.append(torch.cat(heads, dim=-1))
        context = torch.stack(batch)
        return self.out_proj(context), kept
