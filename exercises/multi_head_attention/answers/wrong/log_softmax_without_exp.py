"""The weights are logarithms, the exponential is missing. (named: log_softmax)"""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise AssertionError("num_heads does not divide d_out")
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.dropout = nn.Dropout(dropout)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.register_buffer("hide", torch.ones(context_length, context_length).triu(1).bool())

    def forward(self, x):
        b, t, _ = x.shape
        v = self.W_value(x).view(b, t, self.num_heads, self.head_dim).movedim(2, 1)
        k = self.W_key(x).view(b, t, self.num_heads, self.head_dim).movedim(2, 1)
        q = self.W_query(x).view(b, t, self.num_heads, self.head_dim).movedim(2, 1)
        logits = torch.einsum("bhid,bhjd->bhij", q, k) / self.head_dim**0.5
        logits = logits.masked_fill(self.hide[:t, :t], -torch.inf)
        weights = torch.log_softmax(logits, dim=-1).nan_to_num(neginf=0.0)
        weights = self.dropout(weights)
        context = torch.einsum("bhij,bhjd->bihd", weights, v)
        return self.out_proj(context.reshape(b, t, self.num_heads * self.head_dim))
