"""Style: einsum, and the smallest number of the dtype instead of minus infinity."""

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

    def forward(self, x, mask=None):
        # b: batch, q: queries, k: keys, h: heads, d: width of a head
        query = self.W_query(x).unflatten(-1, (self.num_heads, -1))
        key = self.W_key(x).unflatten(-1, (self.num_heads, -1))
        value = self.W_value(x).unflatten(-1, (self.num_heads, -1))
        scores = torch.einsum("bqhd,bkhd->bhqk", query, key) * self.head_dim**-0.5
        if mask is not None:
            lowest = torch.finfo(scores.dtype).min
            scores = torch.where(mask[:, None, None], scores, lowest)
        weights = self.dropout(scores.softmax(dim=-1))
        return self.out_proj(torch.einsum("bhqk,bkhd->bqhd", weights, value).flatten(-2))
