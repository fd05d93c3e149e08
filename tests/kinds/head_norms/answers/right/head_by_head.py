"""One head after the other, with the sizes of the averages by a vector norm."""

import torch
from torch import nn


class DiffAttention(nn.Module):
    def __init__(self, embed_dim, inner_dim, num_heads):
        super().__init__()
        self.heads, self.width = num_heads, inner_dim // num_heads
        self.q_proj = nn.Linear(embed_dim, inner_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, inner_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, inner_dim, bias=False)
        self.out_proj = nn.Linear(inner_dim, inner_dim, bias=False)
        self.lambda_full = nn.Parameter(torch.full((num_heads,), 0.8))
        self.subln = nn.Module()
        self.subln.weight = nn.Parameter(torch.ones(self.width))

    def attend(self, q, k):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        later = torch.ones_like(scores[0], dtype=torch.bool).triu(1)
        return torch.softmax(scores.masked_fill(later, float("-inf")), -1)

    def forward(self, x):
        parts = (layer(x).split(self.width, -1) for layer in (self.q_proj, self.k_proj, self.v_proj))
        given = []
        for number, (q, k, v) in enumerate(zip(*parts, strict=True)):
            (q1, q2), (k1, k2) = q.chunk(2, -1), k.chunk(2, -1)
            weights = self.attend(q1, k1) - self.lambda_full[number] * self.attend(q2, k2)
            average = weights @ v
            square = torch.linalg.vector_norm(average, dim=-1, keepdim=True) ** 2 / self.width
            given.append(0.2 * average / (square + 1e-5).sqrt() * self.subln.weight)
        return self.out_proj(torch.cat(given, -1))
