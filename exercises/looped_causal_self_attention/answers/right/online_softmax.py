"""Style: every head streams over its keys, with a running maximum, sum and context."""

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, n_embd, head_size):
        super().__init__()
        for role in ("query", "key", "value"):
            setattr(self, f"{role}_W", nn.Parameter(torch.randn(head_size, n_embd) / n_embd**0.5))
            setattr(self, f"{role}_b", nn.Parameter(torch.zeros(head_size)))

    def forward(self, x):
        q = (x @ self.query_W.T + self.query_b) / len(self.query_b) ** 0.5
        k = x @ self.key_W.T + self.key_b
        v = x @ self.value_W.T + self.value_b
        top = torch.full_like(q[..., :1], -torch.inf)
        total, context = torch.zeros_like(top), torch.zeros_like(q)
        for j in range(x.shape[1]):
            # The queries before j do not see key j, and are done.
            t, s, c = top[:, j:], total[:, j:], context[:, j:]
            score = (q[:, j:] * k[:, j : j + 1]).sum(-1, keepdim=True)
            new = torch.maximum(t, score)
            shrink, e = (t - new).exp(), (score - new).exp()
            top = torch.cat([top[:, :j], new], 1)
            total = torch.cat([total[:, :j], s * shrink + e], 1)
            context = torch.cat([context[:, :j], c * shrink + e * v[:, j : j + 1]], 1)
        return context / total


class MultiHead(nn.Module):
    def __init__(self, block_size, n_head, n_embd):
        super().__init__()
        self.heads = nn.ModuleList([Head(n_embd, n_embd // n_head) for _ in range(n_head)])
        self.proj_W = nn.Parameter(torch.randn(n_embd, n_embd) / n_embd**0.5)
        self.proj_b = nn.Parameter(torch.zeros(n_embd))

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], 2) @ self.proj_W.T + self.proj_b
