"""Style: values get a column of ones, so that one sum has both."""

import torch
from torch import nn


class LinearAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x, state=None):
        q, k, v = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        q, k = (nn.functional.elu(t).add(1) for t in (q, k))
        wide = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
        sums = (k.unsqueeze(-1) * wide.unsqueeze(-2)).cumsum(dim=-3)
        sums = sums if state is None else sums + state
        both = torch.matmul(q.unsqueeze(-2), sums).squeeze(-2)
        context = both[..., :-1] / both[..., -1:]
        return self.out_proj(context.transpose(1, 2).flatten(2)), sums[:, :, -1:]
