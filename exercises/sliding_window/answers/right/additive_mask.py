"""Style: a mask of zeros and minus infinities is added, in the dtype of the scores."""

import torch
from torch import nn


class SlidingWindowAttention(nn.Module):
    """Every token sees itself and the window - 1 tokens before it."""

    def __init__(self, d_in, d_out, window, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.window = window
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def bias(self, scores):
        hidden = torch.full_like(scores[0, 0], -torch.inf)
        return hidden.triu(1) + hidden.tril(-self.window)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        scores = (q * self.head_dim**-0.5).matmul(k.mT)
        weights = self.dropout((scores + self.bias(scores)).softmax(dim=-1))
        return self.out_proj(weights.matmul(v).transpose(1, 2).flatten(2))
