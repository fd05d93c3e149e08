"""A softmax by hand: shifted by each row's maximum, the future zeroed, then divided."""

import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer(
            "mask", torch.triu(torch.ones(context_length, context_length), diagonal=1).bool()
        )

    def forward(self, x):
        t = x.shape[1]
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = queries @ keys.transpose(1, 2) / keys.shape[-1] ** 0.5
        hidden = self.mask[:t, :t]
        top = scores.masked_fill(hidden, -torch.inf).amax(dim=-1, keepdim=True)
        e = torch.where(hidden, 0.0, torch.exp((scores - top).masked_fill(hidden, 0.0)))
        weights = e / e.sum(dim=-1, keepdim=True)
        return self.dropout(weights) @ values
