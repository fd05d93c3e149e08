"""Style: heads folded into the batch, scaled by baddbmm."""

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

    def fold(self, tokens):
        batch, length, width = tokens.shape
        heads = tokens.reshape(batch, length, self.num_heads, width // self.num_heads)
        return heads.permute(0, 2, 1, 3).flatten(0, 1)

    def forward(self, x, y):
        q, k, v = self.fold(self.W_query(x)), self.fold(self.W_key(y)), self.fold(self.W_value(y))
        nothing = q.new_zeros(q.shape[0], q.shape[1], k.shape[1])
        scores = torch.baddbmm(nothing, q, k.mT, alpha=self.head_dim**-0.5)
        weights = self.dropout(scores.softmax(dim=2))
        context = torch.bmm(weights, v).unflatten(0, (x.shape[0], self.num_heads))
        return self.out_proj(context.transpose(1, 2).flatten(2))
