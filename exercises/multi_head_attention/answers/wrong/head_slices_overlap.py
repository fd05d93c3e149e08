"""Head i starts at feature i instead of i times the head size. (named: head_slices_overlap)"""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads:
            raise ValueError(f"{d_out=} is not divisible by {num_heads=}")
        self.num_heads = num_heads
        self.width = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        mask = torch.triu(torch.ones(context_length, context_length), 1)
        self.register_buffer("mask", mask.bool(), persistent=False)

    def one_head(self, query, key, value):
        T = query.shape[1]
        logits = query @ key.mT * self.width**-0.5
        logits = logits.masked_fill(self.mask[:T, :T], -torch.inf)
        probs = self.dropout(torch.softmax(logits, dim=-1))
        return probs @ value

    def forward(self, x):
        query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)
        heads = []
        for i in range(self.num_heads):
            part = slice(i, i + self.width)
            heads.append(self.one_head(query[..., part], key[..., part], value[..., part]))
        return self.out_proj(torch.cat(heads, dim=-1))
