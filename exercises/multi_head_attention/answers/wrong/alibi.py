"""Distant keys are penalised, as ALiBi does."""

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    """Causal self-attention with `num_heads` heads."""

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError("the heads need equal widths")
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        batch, tokens, _ = x.size()
        position = torch.arange(tokens, device=x.device)
        hidden = position[None, :] > position[:, None]

        queries = self.W_query(x).view(batch, tokens, self.num_heads, self.head_dim)
        keys = self.W_key(x).view(batch, tokens, self.num_heads, self.head_dim)
        values = self.W_value(x).view(batch, tokens, self.num_heads, self.head_dim)

        queries, keys, values = (y.transpose(1, 2) for y in (queries, keys, values))
        dots = torch.matmul(queries, keys.transpose(2, 3)) / self.head_dim**0.5
        dots = dots - 0.1 * (position[:, None] - position[None, :])
        dots = torch.where(hidden, -torch.inf, dots)
        weights = torch.nn.functional.softmax(dots, dim=3)
        weights = self.dropout(weights)
        result = torch.matmul(weights, values)
        result = result.transpose(1, 2).flatten(start_dim=2)
        return self.out_proj(result)
