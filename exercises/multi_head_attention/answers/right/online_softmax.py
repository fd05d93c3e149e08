"""Keys come in blocks of four, with a running maximum and a running sum."""

import math

import torch
from torch import nn

BLOCK = 4


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError("d_out must be a multiple of num_heads")
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def split(self, y):
        return y.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        t = x.shape[1]
        q = self.split(self.W_query(x)) / math.sqrt(self.head_dim)
        k = self.split(self.W_key(x))
        v = self.split(self.W_value(x))
        rows = torch.arange(t, device=x.device).unsqueeze(1)

        top = q.new_full((*q.shape[:-1], 1), -math.inf)
        total = torch.zeros_like(top)
        context = torch.zeros_like(q)
        for start in range(0, t, BLOCK):
            stop = min(start + BLOCK, t)
            columns = torch.arange(start, stop, device=x.device)
            scores = q @ k[:, :, start:stop].transpose(2, 3)
            scores = scores.masked_fill(columns > rows, -math.inf)
            # the result does not depend on the maximum, so no gradient goes through it
            new_top = torch.maximum(top, scores.detach().amax(dim=-1, keepdim=True))
            shrink = torch.exp(top - new_top)
            weights = torch.exp(scores - new_top)
            total = total * shrink + weights.sum(dim=-1, keepdim=True)
            context = context * shrink + self.dropout(weights) @ v[:, :, start:stop]
            top = new_top
        context = context / total
        return self.out_proj(context.transpose(1, 2).flatten(2))
