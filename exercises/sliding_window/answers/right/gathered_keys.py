"""Style: keys and values gathered by an index, from offsets in a buffer."""

import torch
from torch import nn


class SlidingWindowAttention(nn.Module):
    """Every token sees itself and the window - 1 tokens before it."""

    def __init__(self, d_in, d_out, window, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.window = window
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("offsets", torch.arange(window))

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        index = torch.arange(x.shape[1], device=x.device)[:, None] - self.offsets
        there = index.clamp(min=0)
        scores = (q.unsqueeze(-2) * k[:, :, there]).sum(-1) / self.head_dim**0.5
        weights = self.dropout(scores.masked_fill(index < 0, -torch.inf).softmax(dim=-1))
        context = (weights.unsqueeze(-1) * v[:, :, there]).sum(-2)
        return self.out_proj(context.transpose(1, 2).flatten(2))
