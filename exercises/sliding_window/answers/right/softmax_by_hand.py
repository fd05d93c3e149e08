"""Style: softmax written out; what is hidden is left out of its sums."""

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

    def seen(self, x):
        place = torch.arange(x.shape[1], device=x.device)
        back = place.unsqueeze(1) - place
        return torch.logical_and(back >= 0, back < self.window)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        seen = self.seen(x)
        scores = q @ k.mT / self.head_dim**0.5
        largest = torch.where(seen, scores, -torch.inf).amax(dim=-1, keepdim=True)
        powers = torch.where(seen, scores - largest, -torch.inf).exp()
        weights = self.dropout(powers / powers.sum(dim=-1, keepdim=True))
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
