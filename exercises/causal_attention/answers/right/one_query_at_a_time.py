"""Loops over the queries; each one only ever meets the keys up to its own."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.d_out = d_out
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        rows = []
        for i in range(x.shape[1]):
            query = queries[:, i : i + 1]
            scores = query @ keys[:, : i + 1].transpose(1, 2) / math.sqrt(self.d_out)
            weights = self.dropout(F.softmax(scores, dim=-1))
            rows.append(weights @ values[:, : i + 1])
        return torch.cat(rows, dim=1)
