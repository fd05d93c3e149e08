"""Style: a rotation matrix for every position, and a loop over the heads of keys."""

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
        start = 0 if cache is None else cache[0][0].shape[1]
        turns = self.rotations(start, x)
        group, dim = self.num_heads // self.num_kv_heads, self.head_dim
        q = self.W_query(x).split(group * dim, dim=-1)
        k, v = self.W_key(x).split(dim, dim=-1), self.W_value(x).split(dim, dim=-1)
        contexts, kept = [], []
        for n in range(self.num_kv_heads):
            keys, values = torch.einsum("tij,btj->bti", turns, k[n]), v[n]
            if cache is not None:
                keys = torch.cat([cache[n][0], keys], dim=1)
                values = torch.cat([cache[n][1], values], dim=1)
            kept.append((keys, values))
            for own in q[n].split(dim, dim=-1):
                scores = torch.einsum("tij,btj->bti", turns, own) @ keys.mT / dim**0.5
                future = torch.ones_like(scores, dtype=torch.bool).triu(start + 1)
                contexts.append(scores.masked_fill(future, -torch.inf).softmax(-1) @ values)
        return self.out_proj(torch.cat(contexts, dim=-1)), kept

    def rotations(self, start, x):
        """One matrix (head_dim, head_dim) for each new token."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        half = self.head_dim // 2
        speed = 10_000.0 ** (-torch.arange(half, dtype=dtype, device=x.device) / half)
        position = torch.arange(start, start + x.shape[1], dtype=dtype, device=x.device)
        angle = position[:, None] * speed
        cos, sin = angle.cos().diag_embed(), angle.sin().diag_embed()
        upper, lower = torch.cat([cos, -sin], dim=-1), torch.cat([sin, cos], dim=-1)
        return torch.cat([upper, lower], dim=-2).to(x.dtype)
