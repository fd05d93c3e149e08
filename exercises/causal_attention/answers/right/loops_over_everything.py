"""In plain loops: over sequences, queries and keys."""

import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        batch = []
        for tokens in x:
            q, k, v = self.W_query(tokens), self.W_key(tokens), self.W_value(tokens)
            rows = []
            for i in range(len(tokens)):
                scores = [q[i] @ k[j] / k.shape[-1] ** 0.5 for j in range(i + 1)]
                weights = self.dropout(torch.softmax(torch.stack(scores), dim=0))
                row = 0
                for j in range(i + 1):
                    row = row + weights[j] * v[j]
                rows.append(row)
            batch.append(torch.stack(rows))
        return torch.stack(batch)
