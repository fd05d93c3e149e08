"""Style: the sink is a key: one more coordinate of queries and keys carries its score."""

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
        b, h, t, d = q.shape
        q = torch.cat([q / d**0.5, torch.ones_like(q[..., :1])], dim=-1)
        k = nn.functional.pad(k, (0, 1))
        sink = nn.functional.pad(self.sinks.view(1, h, 1, 1), (d, 0)).expand(b, h, 1, d + 1)
        scores = q @ torch.cat([sink, k], dim=2).mT
        hidden = torch.ones(t, t + 1, dtype=torch.bool, device=x.device).triu(2)
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        value = torch.cat([torch.zeros_like(v[:, :, :1]), v], dim=2)
        return self.out_proj((self.dropout(weights) @ value).transpose(1, 2).flatten(2))
