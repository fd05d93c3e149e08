"""There is no causal mask. (named: no_mask)"""

import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "d_out should split evenly over the heads"
        self.num_heads = num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def heads(self, y):
        batch, tokens, width = y.shape
        y = y.view(batch, tokens, self.num_heads, width // self.num_heads)
        return y.transpose(1, 2)

    def forward(self, x):
        query = self.heads(self.W_query(x))
        key = self.heads(self.W_key(x))
        value = self.heads(self.W_value(x))
        attention = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])
        attention = torch.softmax(attention, dim=-1)
        attention = self.dropout(attention)
        out = (attention @ value).transpose(1, 2).flatten(2)
        return self.out_proj(out)
