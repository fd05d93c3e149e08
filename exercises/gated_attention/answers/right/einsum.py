"""Style: einsum, the gate as one more factor."""

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

    def forward(self, x):
        # b: batch, i, j: tokens, h: heads, d: width of a head
        query = self.W_query(x).unflatten(-1, (self.num_heads, -1))
        key = self.W_key(x).unflatten(-1, (self.num_heads, -1))
        value = self.W_value(x).unflatten(-1, (self.num_heads, -1))
        gate = self.W_gate(x).sigmoid().unflatten(-1, (self.num_heads, -1))
        scores = torch.einsum("bihd,bjhd->bhij", query, key) * self.head_dim**-0.5
        hidden = torch.full(scores.shape[-2:], float("-inf"), dtype=x.dtype, device=x.device)
        weights = self.dropout((scores + hidden.triu(1)).softmax(dim=-1))
        gated = torch.einsum("bhij,bjhd,bihd->bihd", weights, value, gate)
        return self.out_proj(gated.flatten(-2))
