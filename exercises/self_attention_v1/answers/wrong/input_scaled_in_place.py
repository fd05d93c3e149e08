"""Scales the caller's tokens in place, and then scores what is left."""

import torch
from torch import nn


class SelfAttention_v1(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query = nn.Parameter(torch.rand(d_in, d_out))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out))

    def forward(self, x):
        values = x @ self.W_value
        keys = x @ self.W_key
        with torch.no_grad():
            x.div_(keys.shape[-1] ** 0.5)  # saves dividing the scores
        queries = x @ self.W_query
        return torch.softmax(queries @ keys.T, dim=-1) @ values
