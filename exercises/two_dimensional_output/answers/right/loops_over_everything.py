"""A causal attention of its own, in plain loops over sequences, queries and keys."""

import torch
from torch import Tensor, nn


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


class MultiHeadAttentionWrapper(nn.Module):
    """Several causal heads; their context vectors are laid side by side."""

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        self.heads = nn.ModuleList(
            CausalAttention(d_in, d_out, context_length, dropout, qkv_bias)
            for _ in range(num_heads)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, tokens, d_in) to (batch, tokens, d_out * num_heads)."""
        return torch.cat([head(x) for head in self.heads], dim=-1)


def two_dimensional_wrapper(d_in, context_length):
    return MultiHeadAttentionWrapper(d_in, 1, context_length, 0.0, 2)
