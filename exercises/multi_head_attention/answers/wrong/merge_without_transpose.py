"""The heads are merged without being moved back behind the tokens. (named: merge_without_transpose)"""

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
        b, num_tokens, _ = x.shape

        # (b, num_tokens, d_out) -> (b, num_heads, num_tokens, head_dim)
        xq = self.W_query(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
        xk = self.W_key(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
        xv = self.W_value(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)

        dots = xq @ xk.transpose(2, 3) / self.head_dim**0.5
        dots = dots.masked_fill(self.future[:num_tokens, :num_tokens], float("-inf"))
        weights = torch.softmax(dots, dim=-1)
        weights = self.dropout(weights)

        result = weights @ xv
        result = result.contiguous().view(b, num_tokens, self.d_out)
        return self.out_proj(result)
