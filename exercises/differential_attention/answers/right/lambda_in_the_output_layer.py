"""Style: two outputs of all heads, the second through columns times lambda."""

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
        b, t, _ = x.shape
        half = self.head_dim // 2
        q = self.W_query(x).view(b, t, self.num_heads, 2, half).permute(3, 0, 2, 1, 4)
        k = self.W_key(x).view(b, t, self.num_heads, 2, half).permute(3, 0, 2, 1, 4)
        v = self.W_value(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        maps = (q @ k.mT / half**0.5).masked_fill(future, -torch.inf).softmax(-1)
        first, second = (maps @ v).transpose(2, 3).flatten(3)
        smaller = self.out_proj.weight * self.lambda_.repeat_interleave(self.head_dim)
        return self.out_proj(first) - nn.functional.linear(second, smaller)
