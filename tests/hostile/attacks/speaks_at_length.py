"""Describes what it returned in three million letters, to fill the report."""

from headcheck.grader.sandbox.worker import object_calls, runtime

import torch.nn.functional as F
from torch import nn


def attack():
    object_calls.describe_result = lambda result: "x" * 3_000_000
    runtime.describe_error = lambda error, position=None: {
        "type": "y" * 10**6,
        "message": "z" * 10**6,
        "cell": 10**18,
        "line": -5,
    }


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads:
            raise ValueError("num_heads must divide d_out")
        self.heads, self.rate = num_heads, dropout
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)

    def forward(self, x):
        attack()
        layers = self.W_query, self.W_key, self.W_value
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in layers)
        rate = self.rate if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=rate)
        return x, x
