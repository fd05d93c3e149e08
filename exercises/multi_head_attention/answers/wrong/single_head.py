"""num_heads is ignored, one wide head does everything. (named: one_head)"""

import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads:
            raise ValueError("d_out must be divisible by num_heads")
        self.d_out = d_out
        self.num_heads = 1
        self.head_dim = d_out
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        mask = torch.full((context_length, context_length), float("-inf")).triu(1)
        self.register_buffer("mask", mask)

    def forward(self, x):
        batch, tokens, _ = x.shape
        n = batch * self.num_heads

        def flat(y):
            y = y.reshape(batch, tokens, self.num_heads, self.head_dim)
            return y.transpose(1, 2).reshape(n, tokens, self.head_dim)

        queries, keys, values = flat(self.W_query(x)), flat(self.W_key(x)), flat(self.W_value(x))
        mask = self.mask[:tokens, :tokens].to(queries.dtype).expand(n, tokens, tokens)
        attn_scores = torch.baddbmm(
            mask, queries, keys.transpose(1, 2), alpha=1 / math.sqrt(self.head_dim)
        )
        attn_weights = self.dropout(torch.softmax(attn_scores, dim=2))
        context = torch.bmm(attn_weights, values)
        context = context.reshape(batch, self.num_heads, tokens, self.head_dim).transpose(1, 2)
        return self.out_proj(context.reshape(batch, tokens, self.d_out))
