"""Style: each head visits its queries one by one and looks at the slice before them."""

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
        B, T, C = x.shape
        q = x @ self.query_W.T + self.query_b  # B, T, H
        k = x @ self.key_W.T + self.key_b
        v = x @ self.value_W.T + self.value_b

        H = k.shape[-1]
        rows = []
        for t in range(T):
            affinity = q[:, t : t + 1] @ k[:, : t + 1].mT / H**0.5  # B, 1, t + 1
            rows.append(torch.softmax(affinity, dim=-1) @ v[:, : t + 1])
        return torch.cat(rows, dim=1)


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
