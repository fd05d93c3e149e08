"""In plain loops: over sequences, heads, queries and keys."""

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
        b, t, _ = x.shape
        past = 0 if cache is None else cache[0].shape[1]
        c = self.W_down(x)
        k_rope = self.turn(self.W_key_rope(x), past)
        if cache is not None:
            c = torch.cat([cache[0], c], dim=1)
            k_rope = torch.cat([cache[1], k_rope], dim=1)
        kept = c, k_rope
        n = past + t
        q = self.W_query(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        q_rope = self.W_query_rope(x).view(b, t, self.num_heads, self.rope_dim).transpose(1, 2)
        q_rope = self.turn(q_rope, past)
        k = self.W_up_key(c).view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.W_up_value(c).view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
        k_rope = k_rope.unsqueeze(1).expand(b, self.num_heads, n, self.rope_dim)
        q = torch.cat([q, q_rope], dim=-1)
        k = torch.cat([k, k_rope], dim=-1)
        batch = []
        for m in range(b):
            heads = []
            for h in range(self.num_heads):
                rows = []
                for i in range(t):
                    scores = [q[m, h, i] @ k[m, h, j] / (self.head_dim + self.rope_dim) ** 0.5 for j in range(past + i + 1)]
                    weights = torch.softmax(torch.stack(scores), dim=0)
                    row = 0
                    for j in range(past + i + 1):
                        row = row + weights[j] * v[m, h, j]
                    rows.append(row)
                heads.append(torch.stack(rows))
            batch.append(torch.cat(heads, dim=-1))
        context = torch.stack(batch)
        return self.out_proj(context), kept
