"""In plain loops: over queries and keys."""

import torch
from torch import nn


class SelfAttention_v2(nn.Module):
    def __init__(self, d_in, d_out, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x):
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        rows = []
        for i in range(len(x)):
            scores = [q[i] @ k[j] / k.shape[-1] ** 0.5 for j in range(len(x))]
            weights = torch.softmax(torch.stack(scores), dim=0)
            row = 0
            for j in range(len(x)):
                row = row + weights[j] * v[j]
            rows.append(row)
        return torch.stack(rows)
