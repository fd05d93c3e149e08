"""Style: exponentials and their sum written out; the maximum is that of scores and sink."""

import torch
from torch import nn


class SinkAttention(nn.Module):
    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.sinks = nn.Parameter(torch.zeros(num_heads))
        self.dropout = nn.Dropout(dropout)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = (q @ k.mT / self.head_dim**0.5).masked_fill(future, float("-inf"))
        sinks = self.sinks.view(-1, 1, 1)
        top = torch.maximum(scores.amax(dim=-1, keepdim=True), sinks).detach()
        powers = torch.exp(scores - top)
        total = powers.sum(dim=-1, keepdim=True) + torch.exp(sinks - top)
        weights = self.dropout(powers / total)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
