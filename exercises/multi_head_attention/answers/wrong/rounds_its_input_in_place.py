"""The input is rounded to three decimals in place. (named: input_rounded)"""

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0
        self.n_head = num_heads
        self.head_size = d_out // num_heads

        # query, key and value projections for all heads at once
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        # mixes the heads at the end
        self.out_proj = nn.Linear(d_out, d_out)

        self.attn_dropout = nn.Dropout(dropout)
        self.register_buffer("tril", torch.tril(torch.ones(context_length, context_length)))

    def forward(self, x):
        B, T, _ = x.shape
        with torch.no_grad():
            x.round_(decimals=3)
        nh, hs = self.n_head, self.head_size

        q = self.W_query(x).view(B, T, nh, hs).transpose(1, 2)  # (B, nh, T, hs)
        k = self.W_key(x).view(B, T, nh, hs).transpose(1, 2)  # (B, nh, T, hs)
        v = self.W_value(x).view(B, T, nh, hs).transpose(1, 2)  # (B, nh, T, hs)

        att = q @ k.transpose(-2, -1)  # (B, nh, T, T)
        att = att * hs**-0.5
        att = att.masked_fill(self.tril[:T, :T] == 0, -1e9)
        att = att.softmax(dim=-1)
        att = self.attn_dropout(att)

        y = att @ v  # (B, nh, T, hs)
        y = y.transpose(1, 2).reshape(B, T, nh * hs)
        return self.out_proj(y)
