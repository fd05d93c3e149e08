"""In plain loops: over sequences, heads, queries and keys."""

import torch
import torch.nn as nn


class Head(nn.Module):
    """One self-attention head"""

    def __init__(self, block_size, n_embd, head_size):
        super().__init__()
        self.query_W = nn.Parameter(torch.randn(head_size, n_embd))
        self.query_b = nn.Parameter(torch.randn(head_size))
        self.key_W = nn.Parameter(torch.randn(head_size, n_embd))
        self.key_b = nn.Parameter(torch.randn(head_size))
        self.value_W = nn.Parameter(torch.randn(head_size, n_embd))
        self.value_b = nn.Parameter(torch.randn(head_size))

    def forward(self, x):
        batch = []
        for tokens in x:
            q = tokens @ self.query_W.T + self.query_b
            k = tokens @ self.key_W.T + self.key_b
            v = tokens @ self.value_W.T + self.value_b
            rows = []
            for i in range(len(tokens)):
                scores = [q[i] @ k[j] / k.shape[-1] ** 0.5 for j in range(i + 1)]
                weights = torch.softmax(torch.stack(scores), dim=0)
                row = 0
                for j in range(i + 1):
                    row = row + weights[j] * v[j]
                rows.append(row)
            batch.append(torch.stack(rows))
        return torch.stack(batch)


class MultiHead(nn.Module):
    def __init__(self, block_size, n_head, n_embd):
        super().__init__()
        head_size = n_embd // n_head
        self.heads = nn.ModuleList([Head(block_size, n_embd, head_size) for _ in range(n_head)])
        self.proj_W = nn.Parameter(torch.randn(n_embd, n_embd))
        self.proj_b = nn.Parameter(torch.randn(n_embd))

    def forward(self, x):
        x = torch.cat([h(x) for h in self.heads], dim=-1)
        return x @ self.proj_W.T + self.proj_b
