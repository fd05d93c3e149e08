"""Style: view and transpose; the halves are cut from the heads."""

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

        q = self.W_query(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.W_key(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.W_value(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        q1, q2 = q[..., :half], q[..., half:]
        k1, k2 = k[..., :half], k[..., half:]

        mask = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        scores1 = (q1 @ k1.transpose(2, 3) / half**0.5).masked_fill(mask, float("-inf"))
        scores2 = (q2 @ k2.transpose(2, 3) / half**0.5).masked_fill(mask, float("-inf"))
        first = torch.softmax(scores1, dim=-1)
        second = torch.softmax(scores2, dim=-1)
        lam = self.lambda_.view(1, -1, 1, 1)
        weights = first - lam * second

        context = (weights @ v).transpose(1, 2).reshape(b, t, -1)
        return self.out_proj(context)
