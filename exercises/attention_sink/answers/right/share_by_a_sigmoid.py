"""Style: the plain softmax, times the share that the sink leaves: a sigmoid."""

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
        scores = q @ k.mT / self.head_dim**0.5
        past = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril()
        scores = scores.where(past, float("-inf"))
        left = torch.sigmoid(scores.logsumexp(-1, keepdim=True) - self.sinks[:, None, None])
        weights = self.dropout(scores.softmax(-1) * left)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
