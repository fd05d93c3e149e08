"""The softmax takes the notebook's `masked` instead of the scores just masked in forward."""

import torch
from torch import nn

# What earlier cells of the notebook have left behind.
sentence = torch.tensor(
    [
        [0.4, 0.2, 0.9],
        [0.5, 0.9, 0.7],
        [0.6, 0.8, 0.6],
        [0.2, 0.6, 0.3],
        [0.8, 0.2, 0.1],
        [0.1, 0.8, 0.5],
    ]
)
d_out = 2
scores = sentence @ sentence.T
masked = scores.masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf)


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer(
            "mask", torch.triu(torch.ones(context_length, context_length), diagonal=1).bool()
        )

    def forward(self, x):
        b, t, _ = x.shape
        queries = self.W_query(x)
        keys = self.W_key(x)
        values = self.W_value(x)
        scores = queries @ keys.transpose(1, 2)
        scores.masked_fill_(self.mask[:t, :t], -torch.inf)
        # the name is that of an earlier cell
        weights = torch.softmax(masked / d_out**0.5, dim=-1)
        return self.dropout(weights) @ values
