"""In plain loops: over sequences, heads and tokens."""

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
        b, t, _ = x.shape
        q = self.split(self.W_query(x))
        k = self.split(self.W_key(x))
        v = self.split(self.W_value(x))
        q = nn.functional.elu(q) + 1
        k = nn.functional.elu(k) + 1

        batch, states = [], []
        for n in range(b):
            heads = []
            for h in range(self.num_heads):
                kv, z = (0, 0) if state is None else (state[0][n, h], state[1][n, h])
                rows = []
                for i in range(t):
                    kv = kv + torch.outer(k[n, h, i], v[n, h, i])
                    z = z + k[n, h, i]
                    rows.append(q[n, h, i] @ kv / (q[n, h, i] @ z))
                heads.append(torch.stack(rows))
                states.append((kv, z))
            batch.append(torch.cat(heads, dim=-1))
        kv, z = (torch.stack(each).unflatten(0, (b, self.num_heads)) for each in zip(*states))
        return self.out_proj(torch.stack(batch)), (kv, z)
