"""Style: keys in rows: the scores are transposed, and the softmax runs over dim 2."""

import torch
from torch import nn


class SoftcapAttention(nn.Module):
    def __init__(self, d_in, d_out, softcap, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.softcap = softcap
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def limit(self, scores):
        return self.softcap * torch.tanh(scores / self.softcap)

    def forward(self, x):
        q, k, v = self.split(self.W_query(x)), self.split(self.W_key(x)), self.split(self.W_value(x))
        # Keys in rows, queries in columns: the softmax runs over dim 2.
        scores = k @ q.transpose(2, 3) / self.head_dim**0.5
        past = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril(-1)
        scores = self.limit(scores)
        weights = torch.softmax(scores.masked_fill(past, float("-inf")), dim=2).transpose(2, 3)
        return self.out_proj((self.dropout(weights) @ v).transpose(1, 2).flatten(2))
