"""The dropout layer is created and never called. (named: dropout_never)"""

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
        bs, n, _ = x.shape

        # (bs, n, d_out) -> (bs, num_heads, n, head_dim)
        q = self.W_query(x).view(bs, n, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.W_key(x).view(bs, n, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.W_value(x).view(bs, n, self.num_heads, self.head_dim).transpose(1, 2)

        att = q @ k.transpose(2, 3) / self.head_dim**0.5
        att = att.masked_fill(self.future[:n, :n], float("-inf"))
        attn = torch.softmax(att, dim=-1)

        z = (attn @ v).transpose(1, 2)
        z = z.contiguous().view(bs, n, self.d_out)
        return self.out_proj(z)
