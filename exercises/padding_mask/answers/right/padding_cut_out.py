"""Style: one sequence after the other, without its padding: nothing needs to be hidden."""

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
        for number in range(len(x)):
            seen = slice(None) if mask is None else mask[number].nonzero().flatten()
            key, value = keys[number][:, seen], values[number][:, seen]
            scores = queries[number] @ key.mT / self.head_dim**0.5
            contexts.append(self.dropout(scores.softmax(dim=-1)) @ value)
        return self.out_proj(torch.stack(contexts).transpose(1, 2).flatten(2))
