"""Style: chunks as long as the window, each beside the one before it."""

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

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        place = torch.arange(x.shape[1], device=x.device)
        contexts = []
        for start in range(0, x.shape[1], self.window):
            rows = slice(start, start + self.window)
            columns = slice(max(0, start - self.window), start + self.window)
            back = place[rows, None] - place[columns]
            scores = q[:, :, rows] @ k[:, :, columns].mT / self.head_dim**0.5
            scores = scores.masked_fill((back < 0) | (back >= self.window), -torch.inf)
            contexts.append(self.dropout(scores.softmax(dim=-1)) @ v[:, :, columns])
        return self.out_proj(torch.cat(contexts, dim=2).transpose(1, 2).flatten(2))
