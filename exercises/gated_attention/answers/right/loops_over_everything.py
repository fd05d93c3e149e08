"""In plain loops: over sequences, heads, queries and keys."""

import torch
from torch import nn


class GatedAttention(nn.Module):
    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.W_gate = nn.Linear(d_in, d_out, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, t, _ = x.shape

        q = self.W_query(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.W_key(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.W_value(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)

        batch = []
        for n in range(b):
            heads = []
            for h in range(self.num_heads):
                rows = []
                for i in range(t):
                    scores = [q[n, h, i] @ k[n, h, j] / self.head_dim**0.5 for j in range(i + 1)]
                    weights = torch.softmax(torch.stack(scores), dim=0)
                    weights = self.dropout(weights)
                    row = 0
                    for j in range(i + 1):
                        row = row + weights[j] * v[n, h, j]
                    rows.append(row)
                heads.append(torch.stack(rows))
            batch.append(torch.cat(heads, dim=-1))
        context = torch.stack(batch)
        gate = torch.sigmoid(self.W_gate(x))
        return self.out_proj(context * gate)
