"""Style: view and transpose, a mask from the distance of two tokens."""

import torch
from torch import nn


class SlidingWindowAttention(nn.Module):
    """Every token sees itself and the window - 1 tokens before it."""

    def __init__(self, d_in, d_out, window, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.window = window
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, t, _ = x.shape

        q = self.W_query(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.W_key(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.W_value(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)

        place = torch.arange(t, device=x.device)
        distance = place[:, None] - place[None, :]
        hidden = (distance < 0) | (distance >= self.window)

        scores = q @ k.transpose(2, 3) / self.head_dim**0.5
        weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), dim=-1)
        weights = self.dropout(weights)

        context = (weights @ v).transpose(1, 2).reshape(b, t, -1)
        return self.out_proj(context)
