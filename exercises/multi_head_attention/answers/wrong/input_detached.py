"""The input is detached, nothing before this layer learns. (named: input_detached)"""

import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    chunk = 16

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "d_out % num_heads != 0"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def heads(self, y):
        return y.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        x = x.detach()
        q, k, v = (
            self.heads(self.W_query(x)),
            self.heads(self.W_key(x)),
            self.heads(self.W_value(x)),
        )
        pieces = []
        for start in range(0, x.shape[1], self.chunk):
            rows = q[:, :, start : start + self.chunk]
            stop = start + rows.shape[2]
            scores = rows @ k[:, :, :stop].transpose(2, 3) / math.sqrt(self.head_dim)
            hidden = torch.ones_like(scores, dtype=torch.bool).triu(start + 1)
            weights = torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1)
            pieces.append(self.dropout(weights) @ v[:, :, :stop])
        return self.out_proj(torch.cat(pieces, dim=2).transpose(1, 2).flatten(2))
