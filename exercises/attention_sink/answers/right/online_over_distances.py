"""Style: one distance after the other, with a running maximum and sum that begin at the sink."""

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
        top = self.sinks.view(-1, 1, 1).expand(*q.shape[:-1], 1)
        total, context = torch.ones_like(top), torch.zeros_like(q)
        for back in range(x.shape[1]):
            near, far = k.roll(back, dims=2), v.roll(back, dims=2)
            scores = (q * near).sum(-1, keepdim=True) / self.head_dim**0.5
            early = torch.arange(x.shape[1], device=x.device) < back
            scores = scores.masked_fill(early[:, None], -torch.inf)
            largest = torch.maximum(top, scores)
            shrink, power = (top - largest).exp(), (scores - largest).exp()
            total = total * shrink + power
            context = context * shrink + self.dropout(power) * far
            top = largest
        return self.out_proj((context / total).transpose(1, 2).flatten(2))
