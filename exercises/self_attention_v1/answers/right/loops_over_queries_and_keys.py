"""In plain loops: over queries and keys."""

import torch
from torch import nn


class SelfAttention_v1(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query = nn.Parameter(torch.rand(d_in, d_out))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out))

    def forward(self, x):
        q, k, v = x @ self.W_query, x @ self.W_key, x @ self.W_value
        rows = []
        for i in range(len(x)):
            scores = [q[i] @ k[j] / k.shape[-1] ** 0.5 for j in range(len(x))]
            weights = torch.softmax(torch.stack(scores), dim=0)
            row = 0
            for j in range(len(x)):
                row = row + weights[j] * v[j]
            rows.append(row)
        return torch.stack(rows)
