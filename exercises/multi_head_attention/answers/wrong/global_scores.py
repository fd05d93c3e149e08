"""The softmax reads the masked scores of a global example instead of its own."""

import torch
from torch import nn

# the six-token example from the exercise, to try things out
torch.manual_seed(123)
example = torch.rand(1, 6, 3)
masked = (example @ example.transpose(1, 2)).masked_fill(
    torch.ones(6, 6).triu(1).bool(), float("-inf")
)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.ones(context_length, context_length).triu(1).bool())

    def forward(self, x):
        b, t, _ = x.shape
        q = self.W_query(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.W_key(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.W_value(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        scores = q @ k.transpose(2, 3)
        scores = scores.masked_fill(self.mask[:t, :t], float("-inf"))
        weights = torch.softmax(masked[:, :t, :t] / self.head_dim**0.5, dim=-1)
        weights = self.dropout(weights.to(scores).expand_as(scores))
        context = (weights @ v).transpose(1, 2).reshape(b, t, -1)
        return self.out_proj(context)
