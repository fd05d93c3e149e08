"""Mixes the tokens first and projects them to values afterwards: the weights sum to one."""

import torch
from torch import nn


class SelfAttention_v2(nn.Module):
    def __init__(self, d_in, d_out, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x):
        queries = self.W_query(x)
        keys = self.W_key(x)
        weights = torch.softmax(torch.inner(queries, keys) / keys.shape[-1] ** 0.5, dim=-1)
        return self.W_value(weights @ x)
