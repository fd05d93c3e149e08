"""Style: einsum, a padded column of scores that is filled with the sink."""

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

    def forward(self, x):
        # b: batch, i, j: tokens, h: heads, d: width of a head
        query = self.W_query(x).unflatten(-1, (self.num_heads, -1))
        key = self.W_key(x).unflatten(-1, (self.num_heads, -1))
        value = self.W_value(x).unflatten(-1, (self.num_heads, -1))
        scores = torch.einsum("bihd,bjhd->bhij", query, key) * self.head_dim**-0.5
        hidden = torch.full(scores.shape[-2:], float("-inf"), dtype=x.dtype, device=x.device)
        scores = nn.functional.pad(scores + hidden.triu(1), (1, 0))
        scores = scores + nn.functional.pad(self.sinks[:, None], (0, x.shape[1]))[:, None]
        weights = self.dropout(scores.softmax(dim=-1)[..., 1:])
        return self.out_proj(torch.einsum("bhij,bjhd->bihd", weights, value).flatten(-2))
