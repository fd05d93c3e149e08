"""The mask, the scale and the product in one baddbmm; -inf stands in the buffer."""

import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.scale = d_out**-0.5
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.p = dropout
        mask = torch.full((context_length, context_length), -torch.inf).triu(1)
        self.register_buffer("mask", mask)

    def forward(self, x):
        b, t, _ = x.shape
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        mask = self.mask[:t, :t].to(x.dtype).expand(b, t, t)
        scores = torch.baddbmm(mask, queries, keys.transpose(1, 2), alpha=self.scale)
        weights = nn.functional.dropout(scores.softmax(dim=-1), self.p, self.training)
        return torch.bmm(weights, values)
