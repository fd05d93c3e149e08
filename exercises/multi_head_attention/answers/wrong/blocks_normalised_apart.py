"""Each block of keys has a softmax of its own and the blocks are averaged."""

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
        tokens = x.shape[1]
        queries = self.split(self.W_query(x)) / math.sqrt(self.head_dim)
        keys = self.split(self.W_key(x))
        values = self.split(self.W_value(x))
        rows = torch.arange(tokens, device=x.device).unsqueeze(1)

        total = queries.new_zeros(*queries.shape[:-1], 1)
        context = torch.zeros_like(queries)
        for start in range(0, tokens, BLOCK):
            stop = min(start + BLOCK, tokens)
            columns = torch.arange(start, stop, device=x.device)
            attn_scores = queries @ keys[:, :, start:stop].transpose(2, 3)
            attn_scores = attn_scores.masked_fill(columns > rows, -math.inf)
            started = (rows >= start).to(queries.dtype)
            attn_weights = torch.softmax(attn_scores, dim=-1).nan_to_num(0.0)
            total = total + started
            context = context + self.dropout(attn_weights) @ values[:, :, start:stop]
        context = context / total
        return self.out_proj(context.transpose(1, 2).flatten(2))
