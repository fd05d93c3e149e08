"""Every pair of places looks its number up; masks are repeated for the images."""

import math

import torch
from torch import nn


class WindowAttention(nn.Module):
    def __init__(self, dim, window_size, num_heads):
        super().__init__()
        self.heads, (self.rows, self.columns) = num_heads, window_size
        count = (2 * self.rows - 1) * (2 * self.columns - 1)
        self.relative_position_bias_table = nn.Parameter(torch.randn(count, num_heads) * 0.02)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def number(self, query, key):
        down = query // self.columns - key // self.columns + self.rows - 1
        right = query % self.columns - key % self.columns + self.columns - 1
        return down * (2 * self.columns - 1) + right

    def forward(self, x, mask=None):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        rows = [[self.number(i, j) for j in range(n)] for i in range(n)]
        bias = torch.stack([torch.stack([self.relative_position_bias_table[r] for r in row]) for row in rows])
        scores = q @ k.mT / math.sqrt(d // self.heads) + bias.movedim(-1, 0)
        if mask is not None:
            scores = scores + mask.repeat(b // len(mask), 1, 1).unsqueeze(1)
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
