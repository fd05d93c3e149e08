"""Streams over blocks of keys with running maximum and sum; dropout thins out the numerators."""

import torch
from torch import nn

BLOCK = 3


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        q = q * q.shape[-1] ** -0.5
        position = torch.arange(t, device=x.device)
        top = q.new_full((b, t, 1), -torch.inf)
        total = q.new_zeros(b, t, 1)
        context = torch.zeros_like(v)
        for start in range(0, t, BLOCK):
            here = slice(start, start + BLOCK)
            scores = q @ k[:, here].transpose(1, 2)
            scores = scores.masked_fill(position[here] > position[:, None], -torch.inf)
            new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
            powers = torch.exp(scores - new_top)
            shrink = torch.exp(top - new_top)
            total = total * shrink + powers.sum(dim=-1, keepdim=True)
            context = context * shrink + self.dropout(powers) @ v[:, here]
            top = new_top
        return context / total
