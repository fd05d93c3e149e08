"""Halves the sequence again and again; the later half merges its own past with the earlier one."""

import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.d_out = d_out

    def forward(self, x):
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        q = q / self.d_out**0.5
        _, total, context = self.halves(q, k, v)
        return context / total

    def block(self, q, k, v):
        s = q @ k.mT
        top = s.amax(-1, keepdim=True)
        e = (s - top).exp()
        return top, e.sum(-1, keepdim=True), self.dropout(e) @ v

    def halves(self, q, k, v):
        t = q.shape[1]
        if t == 1:
            return self.block(q, k, v)
        h = t // 2
        first = self.halves(q[:, :h], k[:, :h], v[:, :h])
        near = self.halves(q[:, h:], k[:, h:], v[:, h:])
        far = self.block(q[:, h:], k[:, :h], v[:, :h])
        top = torch.maximum(near[0], far[0])
        a, b = (near[0] - top).exp(), (far[0] - top).exp()
        second = (top, near[1] * a + far[1] * b, near[2] * a + far[2] * b)
        return tuple(torch.cat(pair, 1) for pair in zip(first, second))
