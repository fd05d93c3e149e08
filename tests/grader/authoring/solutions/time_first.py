"""Tokens first: the input has the shape (tokens, batch, width)."""

import torch
from torch import nn


class TimeFirstAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.in_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        t, b, c = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q = q.reshape(t, b * self.num_heads, self.head_dim).transpose(0, 1)
        k = k.reshape(t, b * self.num_heads, self.head_dim).transpose(0, 1)
        v = v.reshape(t, b * self.num_heads, self.head_dim).transpose(0, 1)
        scores = torch.bmm(q, k.transpose(1, 2)) / self.head_dim**0.5
        weights = torch.softmax(scores, dim=-1)
        out = torch.bmm(weights, v).transpose(0, 1).reshape(t, b, c)
        return self.out_proj(out)
