"""Heads that stream over the keys; a dropped key counts in the sum, but not in the context."""

import torch
import torch.nn.functional as F
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.scale = d_out**-0.5
        self.dropout = dropout

    def forward(self, x):
        q, k, v = self.W_query(x) * self.scale, self.W_key(x), self.W_value(x)
        row = torch.arange(x.shape[1], device=x.device)[:, None]
        # Every query sees the first key, so that the maximum is finite from the beginning.
        top = q @ k[:, :1].mT
        total = torch.ones_like(top)
        context = self.dropped(total) * v[:, :1]
        for j in range(1, x.shape[1]):
            score = (q @ k[:, j : j + 1].mT).masked_fill(row < j, float("-inf"))
            new = torch.maximum(top, score)
            shrink, e = torch.exp(top - new), torch.exp(score - new)
            total = total * shrink + e
            context = context * shrink + self.dropped(e) * v[:, j : j + 1]
            top = new
        return context / total

    def dropped(self, weights):
        return F.dropout(weights, p=self.dropout, training=self.training)


class MultiHeadAttentionWrapper(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.heads = nn.ModuleList()
        for _ in range(num_heads):
            self.heads.append(CausalAttention(d_in, d_out, context_length, dropout, qkv_bias))

    def forward(self, x):
        outputs = [head(x) for head in self.heads]
        return torch.stack(outputs, dim=-2).flatten(start_dim=-2)
