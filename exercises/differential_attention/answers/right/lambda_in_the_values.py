"""Style: the second map averages values that are multiplied by lambda."""

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
        heads = (self.num_heads, self.head_dim)
        q, k, v = (
            layer(x).unflatten(-1, heads).movedim(-2, -3)
            for layer in (self.W_query, self.W_key, self.W_value)
        )
        future = torch.ones(x.shape[-2:-1] * 2, dtype=torch.bool, device=x.device).triu(1)
        context = 0
        values = v, -self.lambda_.view(-1, 1, 1) * v
        for one, other, value in zip(q.chunk(2, -1), k.chunk(2, -1), values, strict=True):
            scores = one @ other.mT / one.shape[-1] ** 0.5
            context = context + scores.masked_fill(future, -torch.inf).softmax(-1) @ value
        return self.out_proj(context.movedim(-3, -2).flatten(-2))
