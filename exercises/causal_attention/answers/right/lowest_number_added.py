"""Adds the lowest number of the dtype to the future; the buffer is not saved."""

import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False
    ):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        future = torch.triu(torch.ones(context_length, context_length), 1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x):
        t = x.shape[1]
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        lowest = torch.finfo(x.dtype).min
        bias = self.future[:t, :t].to(x.dtype) * lowest
        scores = queries @ keys.mT / keys.shape[-1] ** 0.5
        weights = torch.softmax(scores + bias, dim=-1)
        return self.dropout(weights) @ values
