"""A base class attends to what it may see; the subclass says what that is, and has the layers."""

from abc import ABC, abstractmethod

import torch
from torch import nn


class MaskedAttention(nn.Module, ABC):
    roles = ("query", "key", "value")

    @abstractmethod
    def hidden(self, scores): ...

    def forward(self, x):
        q, k, v = [getattr(self, f"W_{role}")(x) for role in self.roles]
        scores = torch.einsum("...qd,...kd->...qk", q, k).div(self.root)
        weights = torch.softmax(scores + self.hidden(scores), dim=-1)
        return torch.einsum("...qk,...kd->...qd", self.drop(weights), v)


class CausalAttention(MaskedAttention):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.root = d_out**0.5
        for role in self.roles:
            self.add_module(f"W_{role}", nn.Linear(d_in, d_out, bias=qkv_bias))
        self.drop = nn.Dropout(p=dropout)

    def hidden(self, scores):
        return torch.full_like(scores, float("-inf")).triu(1)
