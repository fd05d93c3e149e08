"""Style: one mask of the whole sequence, of which the last rows are taken; scores by einsum."""

import math

import torch
from torch import nn


class CachedAttention(nn.Module):
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

    def forward(self, x, cache=None):
        def heads(t):
            return t.reshape(*t.shape[:2], self.num_heads, self.head_dim)

        new = {"keys": heads(self.W_key(x)), "values": heads(self.W_value(x))}
        if cache:
            new = {name: torch.cat([cache[name], own], dim=1) for name, own in new.items()}
        n = new["keys"].size(1)
        whole = torch.tril(torch.ones(n, n, device=x.device)).bool()
        scores = torch.einsum("bqhd,bkhd->bhqk", heads(self.W_query(x)), new["keys"])
        scores = scores / math.sqrt(self.head_dim)
        scores = scores.masked_fill(~whole[-x.size(1) :], -torch.inf)
        mixed = torch.einsum("bhqk,bkhd->bqhd", self.dropout(scores.softmax(-1)), new["values"])
        return self.out_proj(mixed.flatten(2)), new
