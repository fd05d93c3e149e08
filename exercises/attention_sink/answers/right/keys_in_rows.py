"""Style: keys in rows: the sink is one more row, and the softmax runs over dim 2."""

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
        # Keys in rows, queries in columns.
        scores = k @ q.transpose(2, 3) / self.head_dim**0.5
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril(-1)
        row = self.sinks.reshape(-1, 1, 1).expand_as(scores[:, :, :1])
        rows = torch.cat([scores.masked_fill(hidden, float("-inf")), row], dim=2)
        weights = rows.softmax(dim=2)[:, :, :-1].transpose(2, 3)
        return self.out_proj((self.dropout(weights) @ v).transpose(1, 2).flatten(2))
