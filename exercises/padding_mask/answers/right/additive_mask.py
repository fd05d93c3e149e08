"""Style: a mask of 0 and minus infinity, added to the scores."""

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
        query, key = self.split(self.W_query(x)), self.split(self.W_key(x))
        value = self.split(self.W_value(x))
        bias = torch.zeros(x.shape[:2], dtype=x.dtype, device=x.device)
        if mask is not None:
            bias = bias.masked_fill(mask.logical_not(), float("-inf"))
        scores = query @ key.mT / self.head_dim**0.5 + bias.view(len(x), 1, 1, -1)
        weights = self.dropout(scores.softmax(dim=-1))
        return self.out_proj((weights @ value).transpose(1, 2).flatten(2))
