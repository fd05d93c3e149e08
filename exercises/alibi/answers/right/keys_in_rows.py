"""Style: keys in rows: scores and distances are transposed, and the softmax runs over dim 2."""

import torch
from torch import nn


class AlibiAttention(nn.Module):
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

    def forward(self, x):
        q, k, v = self.split(self.W_query(x)), self.split(self.W_key(x)), self.split(self.W_value(x))
        # Keys in rows, queries in columns: the softmax runs over dim 2.
        scores = k @ q.transpose(2, 3) / self.head_dim**0.5
        past = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril(-1)
        wide = torch.promote_types(x.dtype, torch.float32)
        position = torch.arange(x.shape[1], dtype=wide, device=x.device)
        head = torch.arange(1, self.num_heads + 1, dtype=wide, device=x.device).view(-1, 1, 1)
        lowered = 2 ** (-8 * head / self.num_heads) * (position[:, None] - position)
        scores = scores + lowered.to(x.dtype)
        weights = torch.softmax(scores.masked_fill(past, float("-inf")), dim=2).transpose(2, 3)
        return self.out_proj((self.dropout(weights) @ v).transpose(1, 2).flatten(2))
