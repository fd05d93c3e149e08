"""Several heads that are only laid side by side, and dropout on their weights."""

import torch
from torch import nn


class SelfAttentionHeads(nn.Module):
    def __init__(self, hidden, heads, p):
        super().__init__()
        self.num_heads = heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.drop = nn.Dropout(p)

    def cut(self, t):
        return t.reshape(*t.shape[:2], self.num_heads, -1).permute(0, 2, 1, 3)

    def forward(self, states):
        q, k, v = (
            self.cut(self.query(states)),
            self.cut(self.key(states)),
            self.cut(self.value(states)),
        )
        probs = torch.softmax(q @ k.transpose(-1, -2) / k.shape[-1] ** 0.5, dim=-1)
        mixed = torch.einsum("bhqk,bhkd->bqhd", self.drop(probs), v)
        return mixed.reshape(states.shape)
