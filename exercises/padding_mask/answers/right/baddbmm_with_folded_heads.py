"""Style: sequences and heads folded into one axis, the mask repeated for each head."""

import torch
from torch import nn


class PaddedAttention(nn.Module):
    """Padding is hidden from all."""

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
        parts = tokens.unflatten(-1, (self.num_heads, self.head_dim))
        return parts.transpose(1, 2).flatten(0, 1)

    def forward(self, x, mask=None):
        queries, keys = self.fold(self.W_query(x)), self.fold(self.W_key(x))
        bias = torch.zeros(len(queries), 1, x.shape[1], dtype=x.dtype, device=x.device)
        if mask is not None:
            hidden = mask.logical_not().repeat_interleave(self.num_heads, dim=0)
            bias = bias.masked_fill(hidden.unsqueeze(1), float("-inf"))
        scores = torch.baddbmm(bias, queries, keys.mT, alpha=self.head_dim**-0.5)
        weights = self.dropout(scores.softmax(dim=-1))
        context = torch.bmm(weights, self.fold(self.W_value(x)))
        return self.out_proj(context.unflatten(0, (len(x), -1)).transpose(1, 2).flatten(2))
