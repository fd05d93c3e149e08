"""The output comes as (batch, features, tokens)."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError("heads must divide the output width")
        self.num_heads = num_heads
        self.head_size = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        ones = torch.ones(context_length, context_length, dtype=torch.bool)
        self.register_buffer("upper", torch.triu(ones, diagonal=1))

    def forward(self, x):
        bs, n, _ = x.shape
        qkv = torch.stack([self.W_query(x), self.W_key(x), self.W_value(x)], dim=2)
        qkv = qkv.view(bs, n, 3, self.num_heads, self.head_size)
        qkv = qkv.permute(2, 0, 3, 1, 4)  # 3, bs, heads, n, head_size
        q, k, v = qkv.unbind(0)

        att = (q @ k.transpose(-1, -2)) / (self.head_size**0.5)
        att[:, :, self.upper[:n, :n]] = -torch.inf
        attn = self.dropout(att.softmax(-1))
        out = (attn @ v).permute(0, 2, 1, 3).flatten(2)
        return self.out_proj(out).transpose(1, 2)
