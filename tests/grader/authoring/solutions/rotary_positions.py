import torch
from torch import nn


def rotate(x, base=10000.0):
    width = x.shape[-1]
    rates = base ** -(torch.arange(0, width, 2, dtype=torch.float64, device=x.device) / width)
    places = torch.arange(x.shape[-2], dtype=torch.float64, device=x.device)
    angles = torch.outer(places, rates)
    cos = torch.cat([angles.cos(), angles.cos()], dim=-1).to(x.dtype)
    sin = torch.cat([angles.sin(), angles.sin()], dim=-1).to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class RotaryAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(embed_dim, embed_dim)
        self.key = nn.Linear(embed_dim, embed_dim)
        self.value = nn.Linear(embed_dim, embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        b, t, d = x.shape
        q = self.query(x).view(b, t, self.num_heads, -1).transpose(1, 2)
        k = self.key(x).view(b, t, self.num_heads, -1).transpose(1, 2)
        v = self.value(x).view(b, t, self.num_heads, -1).transpose(1, 2)
        q, k = rotate(q), rotate(k)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, d))
