"""Every pair of tokens by itself, with boundaries of the buckets as powers."""

import torch
from torch import nn


def find(distance):
    later, size = (6, distance) if distance > 0 else (0, -distance)
    if size < 3:
        return later + size
    far = 3
    while far < 5 and size >= 3 * (10 / 3) ** ((far - 2) / 3):
        far += 1
    return later + far


class T5Attention(nn.Module):
    def __init__(self, d_model, inner_dim, num_heads):
        super().__init__()
        self.heads = num_heads
        self.q = nn.Linear(d_model, inner_dim, bias=False)
        self.k = nn.Linear(d_model, inner_dim, bias=False)
        self.v = nn.Linear(d_model, inner_dim, bias=False)
        self.o = nn.Linear(inner_dim, inner_dim, bias=False)
        self.relative_attention_bias = nn.Embedding(12, num_heads)

    def forward(self, x, mask=None):
        n, table = x.shape[1], self.relative_attention_bias.weight
        bias = torch.stack([torch.stack([table[find(j - i)] for j in range(n)]) for i in range(n)])
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1)) for layer in (self.q, self.k, self.v))
        scores = torch.einsum("bihd,bjhd->bhij", q, k) + torch.einsum("ijh->hij", bias)
        if mask is not None:
            scores = torch.where(mask, scores, torch.tensor(float("-inf"), dtype=scores.dtype))
        weights = torch.softmax(scores, -1)
        return self.o(torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2))
