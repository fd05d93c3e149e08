"""All weight goes to the best key. (named: hardmax)"""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, f"{num_heads} heads do not divide {d_out}"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        B, T, _ = x.shape
        shape = (B, T, self.num_heads, self.head_dim)
        query = self.W_query(x).reshape(shape)
        key = self.W_key(x).reshape(shape)
        value = self.W_value(x).reshape(shape)

        rows = []
        for i in range(T):
            # the past of token i, itself included
            seen = slice(0, i + 1)
            logits = (query[:, i : i + 1] * key[:, seen]).sum(dim=-1) / self.head_dim**0.5
            best = logits == logits.max(dim=1, keepdim=True).values
            probs = self.dropout(best.to(logits.dtype))
            rows.append((probs.unsqueeze(-1) * value[:, seen]).sum(dim=1))
        ctx = torch.stack(rows, dim=1).flatten(2)
        return self.out_proj(ctx)
