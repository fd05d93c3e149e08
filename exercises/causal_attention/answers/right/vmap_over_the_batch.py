"""Knows only single sequences, and is mapped over the batch with random numbers for each."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (
            nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3)
        )
        self.p = dropout
        self.scale = 1 / math.sqrt(d_out)
        self.register_buffer("past", torch.tril(torch.ones(context_length, context_length)) > 0)

    def one_sequence(self, x):
        t = len(x)
        scores = self.W_query(x) @ self.W_key(x).T * self.scale
        scores = torch.where(self.past[:t, :t], scores, -torch.inf)
        weights = F.dropout(scores.softmax(-1), self.p, training=self.training)
        return weights @ self.W_value(x)

    def forward(self, x):
        return torch.vmap(self.one_sequence, randomness="different")(x)
