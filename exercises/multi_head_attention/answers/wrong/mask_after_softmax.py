"""The mask zeroes weights after the softmax and the rows are not renormalised. (named: masked_after_softmax)"""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError("num_heads must divide d_out")
        self.d_out = d_out
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads

        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        future = torch.triu(torch.ones(context_length, context_length), diagonal=1).bool()
        self.register_buffer("future", future)

    def forward(self, x):
        B, T, _ = x.shape

        # (B, T, d_out) -> (B, num_heads, T, head_dim)
        query = self.W_query(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        key = self.W_key(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        value = self.W_value(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)

        logits = query @ key.transpose(2, 3) / self.head_dim**0.5
        probs = torch.softmax(logits, dim=-1)
        probs = probs.masked_fill(self.future[:T, :T], 0.0)
        probs = self.dropout(probs)

        ctx = (probs @ value).transpose(1, 2)
        ctx = ctx.contiguous().view(B, T, self.d_out)
        return self.out_proj(ctx)
