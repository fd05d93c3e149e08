"""Style: exponentials times the mask, divided by their sum."""

import torch
from torch import nn


class PaddedAttention(nn.Module):
    """Padding is hidden from all."""

    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def softmax(self, scores, mask):
        # Padding must not set the maximum: the others could underflow beside it.
        top = scores.masked_fill(~mask, float("-inf")).amax(dim=-1, keepdim=True)
        exponentials = (scores - top).clamp(max=0.0).exp() * mask
        return exponentials / exponentials.sum(dim=-1, keepdim=True)

    def forward(self, x, mask=None):
        if mask is None:
            mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        query, key = self.split(self.W_query(x)), self.split(self.W_key(x))
        scores = query @ key.transpose(-2, -1) / self.head_dim**0.5
        weights = self.dropout(self.softmax(scores, mask[:, None, None]))
        context = weights @ self.split(self.W_value(x))
        return self.out_proj(context.transpose(1, 2).flatten(2))
