"""A ModuleList with a forward of its own: it calls its heads and joins what they return."""

import math

import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.weights = nn.Sequential(nn.Softmax(dim=-1), nn.Dropout(dropout))
        hidden = torch.full((context_length, context_length), -math.inf).triu(1)
        self.register_buffer("hidden", hidden, persistent=False)

    def forward(self, x):
        t = x.shape[-2]
        scores = self.W_query(x) @ self.W_key(x).mT / math.sqrt(self.W_key.out_features)
        return self.weights(scores + self.hidden[:t, :t].to(scores)) @ self.W_value(x)


class Heads(nn.ModuleList):
    def forward(self, x):
        return torch.concat([head(x) for head in self], dim=2)


class MultiHeadAttentionWrapper(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        each = (d_in, d_out, context_length, dropout, qkv_bias)
        self.heads = Heads([CausalAttention(*each) for _ in range(num_heads)])

    def forward(self, x):
        return self.heads(x)
