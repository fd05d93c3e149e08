"""Stacks the weights of the heads and computes them all together."""

import torch
import torch.nn.functional as F
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, qkv_bias):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)


class MultiHeadAttentionWrapper(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.heads = nn.ModuleList(CausalAttention(d_in, d_out, qkv_bias) for _ in range(num_heads))
        self.d_out = d_out
        self.dropout = nn.Dropout(dropout)

    def project(self, name, x):
        layers = [getattr(head, name) for head in self.heads]
        weight = torch.cat([layer.weight for layer in layers])
        bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
        y = F.linear(x, weight, bias)
        return y.unflatten(-1, (len(layers), self.d_out)).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.project(name, x) for name in ("W_query", "W_key", "W_value"))
        scores = q @ k.transpose(-2, -1) * self.d_out**-0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        weights = self.dropout(scores.masked_fill(future, -1e9).softmax(dim=-1))
        return (weights @ v).transpose(1, 2).flatten(start_dim=2)
