"""Style: einsum for every product, with an axis for the two maps."""

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
        self.lambda_ = nn.Parameter(0.8 * torch.ones(num_heads))

    def forward(self, x):
        b, t, _ = x.shape
        sizes = b, t, self.num_heads, 2, self.head_dim // 2
        q, k = self.W_query(x).reshape(sizes), self.W_key(x).reshape(sizes)
        v = self.W_value(x).reshape(b, t, self.num_heads, self.head_dim)
        scores = torch.einsum("bihme,bjhme->mbhij", q, k) / sizes[-1] ** 0.5
        past = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        maps = scores.where(past, -torch.inf).softmax(dim=-1)
        share = torch.stack([torch.ones_like(self.lambda_), -self.lambda_])
        context = torch.einsum("mh,mbhij,bjhe->bihe", share, maps, v)
        return self.out_proj(context.reshape(b, t, -1))
