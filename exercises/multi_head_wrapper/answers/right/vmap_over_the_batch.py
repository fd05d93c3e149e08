"""A closure for one sequence in every head, mapped over the batch; the outputs are hstacked."""

import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        """Of one sequence: (tokens, d_in)."""
        scores = self.W_query(x) @ self.W_key(x).T * self.W_key.out_features**-0.5
        past = torch.ones_like(scores, dtype=torch.bool).tril()
        return self.drop(scores.masked_fill(~past, -torch.inf).softmax(-1)) @ self.W_value(x)


class MultiHeadAttentionWrapper(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        make_head = lambda _: CausalAttention(d_in, d_out, context_length, dropout, qkv_bias)  # noqa: E731
        self.heads = nn.ModuleList(map(make_head, range(num_heads)))

    def forward(self, x):
        def one_sequence(sequence):
            return torch.hstack([head(sequence) for head in self.heads])

        return torch.vmap(one_sequence, randomness="different")(x)
