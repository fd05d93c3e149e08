"""Style: a loop over new tokens, whose keys are as many as come before and its own."""

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
        past = 0 if cache is None else cache["tokens"]
        q, k = self.turn(q, past), self.turn(k, past)
        if past:
            k, v = torch.cat([cache["k"], k], dim=2), torch.cat([cache["v"], v], dim=2)
        group = self.num_heads // self.num_kv_heads
        rows = []
        for i in range(t):
            keys = k[:, :, : past + i + 1].repeat_interleave(group, 1)
            values = v[:, :, : past + i + 1].repeat_interleave(group, 1)
            scores = (keys @ q[:, :, i, :, None]).squeeze(-1) / self.head_dim**0.5
            weights = (scores - scores.amax(-1, keepdim=True)).exp()
            weights = weights / weights.sum(-1, keepdim=True)
            rows.append((weights.unsqueeze(-2) @ values).squeeze(-2).flatten(1))
        return self.out_proj(torch.stack(rows, 1)), {"k": k, "v": v, "tokens": past + t}
