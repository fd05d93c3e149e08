"""Style: one query after the other."""

import torch
from torch import nn


class PaddedAttention(nn.Module):
    """Padding is hidden from all."""

    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x, mask=None):
        queries = self.split(self.W_query(x))
        keys, values = self.split(self.W_key(x)), self.split(self.W_value(x))
        contexts = []
        for query in queries.unbind(dim=2):
            scores = (keys @ query.unsqueeze(-1)).squeeze(-1) / self.head_dim**0.5
            if mask is not None:
                scores = scores.masked_fill(~mask.unsqueeze(1), float("-inf"))
            weights = self.dropout(scores.softmax(dim=-1))
            contexts.append((weights.unsqueeze(-2) @ values).squeeze(-2))
        return self.out_proj(torch.stack(contexts, dim=2).transpose(1, 2).flatten(2))
