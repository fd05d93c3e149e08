"""Style: a recurrent network: one token after the other."""

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
        q, k = nn.functional.elu(q) + 1, nn.functional.elu(k) + 1
        mixed, total = (0, 0) if state is None else state
        rows = []
        for i in range(x.shape[1]):
            mixed = mixed + k[:, :, i, :, None] * v[:, :, i, None, :]
            total = total + k[:, :, i]
            asked = (q[:, :, i, None, :] @ mixed).squeeze(-2)
            rows.append(asked / (q[:, :, i] * total).sum(-1, keepdim=True))
        context = torch.stack(rows, dim=2).transpose(1, 2).flatten(2)
        return self.out_proj(context), (mixed, total)
