"""Style: one query after the other, with the keys up to its own; the sink stands first."""

import torch
from torch import nn


class SinkAttention(nn.Module):
    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.sinks = nn.Parameter(torch.zeros(num_heads))
        self.dropout = nn.Dropout(dropout)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        sink = self.sinks.view(1, -1, 1).expand(x.shape[0], -1, 1)
        rows = []
        for i in range(x.shape[1]):
            scores = (k[:, :, : i + 1] @ q[:, :, i, :, None])[..., 0] / self.head_dim**0.5
            _, weights = torch.cat([sink, scores], dim=-1).softmax(-1).split([1, i + 1], dim=-1)
            rows.append((self.dropout(weights)[..., None, :] @ v[:, :, : i + 1])[..., 0, :])
        return self.out_proj(torch.stack(rows, dim=2).transpose(1, 2).flatten(2))
