"""Weights and biases by hand, one head a module."""

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
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        B, T, C = x.shape
        q = x @ self.query_W.T + self.query_b  # B, T, H
        k = x @ self.key_W.T + self.key_b
        v = x @ self.value_W.T + self.value_b

        H = k.shape[-1]
        affinity = q @ k.mT / H**0.5  # B, T, T
        affinity = affinity.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        affinity = torch.softmax(affinity, dim=-1)
        return affinity @ v


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
