"""Carries x @ W over from bare parameters: runs only where the weights are square. (named: weights_not_transposed)"""

import torch
from torch import nn


class SelfAttention_v2(nn.Module):
    def __init__(self, d_in, d_out, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    def project(self, x, layer):
        y = x @ layer.weight
        return y if layer.bias is None else y + layer.bias

    def forward(self, x):
        queries = self.project(x, self.W_query)
        keys = self.project(x, self.W_key)
        values = self.project(x, self.W_value)
        weights = torch.softmax(queries @ keys.T / keys.shape[-1] ** 0.5, dim=-1)
        return weights @ values
