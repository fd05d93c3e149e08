"""Loops over the tokens; each query computes its scores, its weights and its context."""

import torch
from torch import nn


class SelfAttention_v1(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.d_out = d_out
        self.W_query = nn.Parameter(torch.rand(d_in, d_out))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out))

    def context(self, token, keys, values):
        query = token @ self.W_query
        scores = torch.mv(keys, query) / self.d_out**0.5
        return torch.softmax(scores, dim=0) @ values

    def forward(self, x):
        keys = x @ self.W_key
        values = x @ self.W_value
        return torch.stack([self.context(token, keys, values) for token in x])
