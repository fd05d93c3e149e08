"""Style: one product for queries, keys and values; the maps lie in the batch."""

import torch
from torch import nn


class DifferentialAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.lambda_ = nn.Parameter(torch.full((num_heads,), 0.8))

    def forward(self, x):
        layers = (self.W_query, self.W_key, self.W_value)
        weight = torch.cat([layer.weight for layer in layers])
        bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
        q, k, v = nn.functional.linear(x, weight, bias).chunk(3, dim=-1)
        b, t, width = v.shape
        both = (b, t, self.num_heads, 2, -1)
        q, k = (m.reshape(both).permute(0, 2, 3, 1, 4).flatten(0, 2) for m in (q, k))
        scores = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        maps = scores.masked_fill(future, -torch.inf).softmax(dim=2)
        maps = maps.unflatten(0, (b, self.num_heads, 2))
        signs = torch.stack([torch.ones_like(self.lambda_), -self.lambda_], dim=-1)
        weights = (signs[..., None, None] * maps).sum(dim=2)
        v = v.reshape(b, t, self.num_heads, -1).transpose(1, 2)
        return self.out_proj((weights @ v).transpose(1, 2).reshape(b, t, width))
