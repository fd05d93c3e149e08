"""Query and key come from the same projection. (named: queries_with_queries)"""

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
        batch, tokens, _ = x.shape

        # (batch, tokens, d_out) -> (batch, num_heads, tokens, head_dim)
        queries = self.W_query(x).view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)
        keys = self.W_query(x).view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)
        values = self.W_value(x).view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)

        attn_scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        attn_scores = attn_scores.masked_fill(self.future[:tokens, :tokens], float("-inf"))
        attn_weights = torch.softmax(attn_scores, dim=-1)
        attn_weights = self.dropout(attn_weights)

        context = (attn_weights @ values).transpose(1, 2)
        context = context.contiguous().view(batch, tokens, self.d_out)
        return self.out_proj(context)
