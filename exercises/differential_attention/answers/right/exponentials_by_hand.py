"""Style: exponentials and sums by hand, each map divided at the end."""

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

    def average(self, q, k, v):
        t = q.shape[-2]
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        hidden = torch.ones(t, t, dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
        powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True).detach())
        return powers @ v / powers.sum(dim=-1, keepdim=True)

    def forward(self, x):
        b, t, _ = x.shape
        layers = (self.W_query, self.W_key, self.W_value)
        q, k, v = (m(x).view(b, t, self.num_heads, -1).transpose(1, 2) for m in layers)
        (q1, q2), (k1, k2) = (m.split(self.head_dim // 2, dim=-1) for m in (q, k))
        lam = self.lambda_.reshape(self.num_heads, 1, 1)
        context = self.average(q1, k1, v) - lam * self.average(q2, k2, v)
        return self.out_proj(context.transpose(1, 2).reshape(b, t, -1))
