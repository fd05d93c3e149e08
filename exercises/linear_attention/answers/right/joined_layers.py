"""Style: one product for queries, keys and values; heads lie in the batch."""

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

    def forward(self, x, state=None):
        layers = (self.W_query, self.W_key, self.W_value)
        weight = torch.cat([layer.weight for layer in layers])
        bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
        b, t, _ = x.shape
        packed = nn.functional.linear(x, weight, bias).view(b, t, 3, self.num_heads, -1)
        q, k, v = packed.permute(2, 0, 3, 1, 4).flatten(1, 2)
        q, k = nn.functional.elu(q) + 1, nn.functional.elu(k) + 1
        mixed = torch.cumsum(k[:, :, :, None] * v[:, :, None], 1)
        total = torch.cumsum(k, 1)
        if state:
            mixed, total = mixed + state[0], total + state[1]
        context = torch.einsum("ntd,ntde->nte", q, mixed)
        context = context * (q * total).sum(2, keepdim=True).reciprocal()
        context = context.view(b, self.num_heads, t, -1).transpose(1, 2).reshape(b, t, -1)
        return self.out_proj(context), [mixed[:, -1:], total[:, -1:]]
