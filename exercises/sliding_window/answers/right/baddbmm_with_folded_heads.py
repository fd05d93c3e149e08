"""Style: heads folded into the batch, the mask put in by baddbmm."""

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

    def fold(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, -1)).permute(0, 2, 1, 3).flatten(0, 1)

    def forward(self, x):
        q, k, v = self.fold(self.W_query(x)), self.fold(self.W_key(x)), self.fold(self.W_value(x))
        place = torch.arange(x.shape[1], device=x.device)
        seen = (place <= place[:, None]) & (place[:, None] < place + self.window)
        start = q.new_zeros(seen.shape).masked_fill(~seen, -torch.inf)
        weights = torch.baddbmm(start, q, k.mT, alpha=self.head_dim**-0.5).softmax(dim=2)
        context = torch.bmm(self.dropout(weights), v).unflatten(0, (-1, self.num_heads))
        return self.out_proj(context.transpose(1, 2).flatten(2))
