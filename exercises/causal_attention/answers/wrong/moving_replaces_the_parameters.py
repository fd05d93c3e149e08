"""Wrong: .to() puts in new parameters to have them contiguous: frozen ones are thawed, and an optimizer made before trains the old ones."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.d_out = d_out
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.ones(context_length, context_length, dtype=torch.bool).triu(1))

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        for layer in (self.W_query, self.W_key, self.W_value):
            layer.weight = nn.Parameter(layer.weight.data.contiguous())
            if layer.bias is not None:
                layer.bias = nn.Parameter(layer.bias.data.contiguous())
        return self

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        s = q @ k.transpose(-2, -1) / math.sqrt(self.d_out)
        w = torch.softmax(s.masked_fill(self.mask[:n, :n], -torch.inf), dim=-1)
        return self.dropout(w) @ v
