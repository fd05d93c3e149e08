import torch
import torch.nn as nn


class AttentionLayer(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, channels, heads):
        super().__init__()
        self.h = heads
        self.q = nn.Linear(channels, channels)
        self.k = nn.Linear(channels, channels)
        self.v = nn.Linear(channels, channels)
        self.o = nn.Linear(channels, channels)

    def forward(self, x):
        residual = x
        b, n, c = x.shape
        q = self.q(x).reshape(b, n, self.h, c // self.h).transpose(1, 2)
        k = self.k(x).reshape(b, n, self.h, c // self.h).transpose(1, 2)
        v = self.v(x).reshape(b, n, self.h, c // self.h).transpose(1, 2)
        a = torch.softmax(q @ k.transpose(-1, -2) / (c // self.h) ** 0.5, dim=-1)
        y = self.o((a @ v).transpose(1, 2).reshape(b, n, c))
        return y + residual
