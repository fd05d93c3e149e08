"""Style: keys and values padded in front and unfolded, so that each query has a window of its own."""

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

    def unfold(self, t):
        # Token i of the result holds the tokens i - window + 1 to i, and zeros before the first.
        padded = nn.functional.pad(t, (0, 0, self.window - 1, 0))
        return padded.unfold(2, self.window, 1)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        scores = torch.einsum("bhid,bhidw->bhiw", q, self.unfold(k)) / self.head_dim**0.5
        place = torch.arange(x.shape[1], device=x.device)[:, None]
        offset = torch.arange(self.window, device=x.device) - self.window + 1
        scores = scores.masked_fill(place + offset < 0, -torch.inf)
        weights = self.dropout(scores.softmax(dim=-1))
        context = torch.einsum("bhiw,bhidw->bhid", weights, self.unfold(v))
        return self.out_proj(context.transpose(1, 2).flatten(2))
