"""Style: softmax written out, the scale folded into the queries."""

import torch
from torch import nn


class CrossAttention(nn.Module):
    """The tokens of x read those of y."""

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

    def softmax(self, scores):
        powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        return powers / powers.sum(dim=-1, keepdim=True)

    def split(self, tokens):
        return tokens.unflatten(2, (self.num_heads, self.head_dim)).movedim(2, 1)

    def forward(self, x, y):
        q = self.split(self.W_query(x) / self.head_dim**0.5)
        k, v = self.split(self.W_key(y)), self.split(self.W_value(y))
        weights = self.dropout(self.softmax(q.matmul(k.mT)))
        return self.out_proj(weights.matmul(v).movedim(1, 2).flatten(2))
