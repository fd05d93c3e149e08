"""Style: cosines written twice, and the halves swapped, as in the library."""

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
        step = torch.arange(0, self.head_dim, 2, device=t.device, dtype=dtype) / self.head_dim
        place = torch.arange(start, start + t.shape[2], device=t.device, dtype=dtype)
        freqs = place[:, None] / 10_000.0**step
        emb = torch.cat([freqs, freqs], dim=-1)
        first, second = t.chunk(2, dim=-1)
        swapped = torch.cat([-second, first], dim=-1)
        return t * emb.cos().to(t.dtype) + swapped * emb.sin().to(t.dtype)

    def forward(self, x, cache=None):
        dim = self.head_dim
        q = self.W_query(x).unflatten(-1, (-1, dim)).transpose(1, 2)
        k = self.W_key(x).unflatten(-1, (-1, dim)).transpose(1, 2)
        v = self.W_value(x).unflatten(-1, (-1, dim)).transpose(1, 2)
        start = 0 if cache is None else cache[1].shape[-2]
        q, k = self.turn(q, start), self.turn(k, start)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=-2), torch.cat([cache[1], v], dim=-2)
        group = self.num_heads // self.num_kv_heads
        wide = [t[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2) for t in (k, v)]
        bias = torch.full((q.shape[2], k.shape[2]), -torch.inf, device=x.device, dtype=x.dtype)
        scores = q @ wide[0].mT / dim**0.5 + bias.triu(start + 1)
        mixed = scores.softmax(-1) @ wide[1]
        return self.out_proj(mixed.transpose(1, 2).flatten(2)), (k, v)
