"""Style: one query after the other, with its gate."""

import torch
from torch import nn


class GatedAttention(nn.Module):
    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.W_gate = nn.Linear(d_in, d_out, bias=False)
        self.dropout = nn.Dropout(dropout)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        rows = []
        for i in range(x.shape[1]):
            scores = (k[:, :, : i + 1] @ q[:, :, i, :, None])[..., 0] / self.head_dim**0.5
            weights = self.dropout(scores.softmax(-1))[..., None, :]
            context = (weights @ v[:, :, : i + 1])[..., 0, :].flatten(1)
            rows.append(self.out_proj(context * self.W_gate(x[:, i]).sigmoid()))
        return torch.stack(rows, dim=1)
