"""__call__ is overridden to call forward: hooks registered by the user never run."""

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, block_size, n_embd, head_size):
        super().__init__()
        for name in ("query", "key", "value"):
            setattr(self, name + "_W", nn.Parameter(torch.randn(head_size, n_embd) * n_embd**-0.5))
            setattr(self, name + "_b", nn.Parameter(torch.zeros(head_size)))
        past = torch.ones(block_size, block_size, dtype=torch.bool).tril()
        self.register_buffer("past", past)

    def forward(self, x):
        t = x.shape[1]
        q = x @ self.query_W.T + self.query_b
        k = x @ self.key_W.T + self.key_b
        v = x @ self.value_W.T + self.value_b
        scores = q @ k.transpose(-2, -1) / k.shape[-1] ** 0.5
        scores = scores.masked_fill(~self.past[:t, :t], float("-inf"))
        return torch.softmax(scores, dim=-1) @ v


class MultiHead(nn.Module):
    def __init__(self, block_size, n_head, n_embd):
        super().__init__()
        self.heads = nn.ModuleList(Head(block_size, n_embd, n_embd // n_head) for _ in range(n_head))
        self.proj_W = nn.Parameter(torch.randn(n_embd, n_embd) * n_embd**-0.5)
        self.proj_b = nn.Parameter(torch.zeros(n_embd))

    def forward(self, x):
        return self.attend(x)

    __call__ = forward

    def attend(self, x):
        side = torch.cat([head(x) for head in self.heads], dim=-1)
        return side @ self.proj_W.T + self.proj_b
