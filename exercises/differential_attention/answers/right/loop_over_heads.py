"""Style: a loop over heads, each with its slice of columns."""

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
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        half = self.head_dim // 2
        later = torch.full((x.shape[1], x.shape[1]), -torch.inf, dtype=x.dtype, device=x.device)
        later = later.triu(1)
        heads = []
        for head in range(self.num_heads):
            begin = head * self.head_dim
            maps = []
            for part in (slice(begin, begin + half), slice(begin + half, begin + 2 * half)):
                scores = q[..., part] @ k[..., part].mT / half**0.5
                maps.append((scores + later).softmax(-1))
            weights = maps[0] - self.lambda_[head] * maps[1]
            heads.append(weights @ v[..., begin : begin + self.head_dim])
        return self.out_proj(torch.cat(heads, dim=-1))
