"""Style: the keys of tokens are sorted to the front, and cut after the last of them."""

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
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        if mask is not None:
            order = mask.int().argsort(dim=1, descending=True, stable=True)
            order = order[:, : int(mask.sum(dim=1).max())]
            mask = mask.gather(1, order)
            columns = order[..., None].expand(-1, -1, keys.shape[-1])
            keys, values = keys.gather(1, columns), values.gather(1, columns)
        scores = self.split(queries) @ self.split(keys).mT / self.head_dim**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None], float("-inf"))
        weights = self.dropout(scores.softmax(dim=-1))
        return self.out_proj((weights @ self.split(values)).transpose(1, 2).flatten(2))
