"""Each head loops over its queries; the outputs fill one tensor made beforehand."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.width = d_out
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        rows = []
        for i in range(x.shape[1]):
            past = slice(0, i + 1)
            scores = torch.einsum("bd,bkd->bk", queries[:, i], keys[:, past]) / math.sqrt(
                self.width
            )
            weights = self.dropout(F.softmax(scores, dim=-1))
            rows.append(torch.einsum("bk,bkd->bd", weights, values[:, past]))
        return torch.stack(rows, dim=1)


class MultiHeadAttentionWrapper(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.heads = nn.ModuleList(
            [
                CausalAttention(d_in, d_out, context_length, dropout, qkv_bias)
                for _ in range(num_heads)
            ]
        )
        self.d_out = d_out

    def forward(self, x):
        b, t, _ = x.shape
        result = x.new_empty(b, t, self.d_out * len(self.heads))
        for i, head in enumerate(self.heads):
            result[..., i * self.d_out : (i + 1) * self.d_out] = head(x)
        return result
