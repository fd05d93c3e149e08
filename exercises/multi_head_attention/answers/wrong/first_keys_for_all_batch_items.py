"""All items of the batch attend to the keys of the first one."""

import math

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "d_out has to be a multiple of num_heads"
        self.h = num_heads
        self.d_k = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("visible", torch.ones(context_length, context_length).tril().bool())

    def split(self, y):
        return y.reshape(y.shape[0], y.shape[1], self.h, self.d_k)

    def forward(self, x):
        n = x.shape[1]
        q = self.split(self.W_query(x))
        k = self.split(self.W_key(x))
        v = self.split(self.W_value(x))
        att = torch.einsum("bqhd,khd->bhqk", q, k[0]) / math.sqrt(self.d_k)
        att = att.masked_fill(~self.visible[:n, :n], -math.inf)
        attn = self.drop(att.softmax(dim=-1))
        z = torch.einsum("bhqk,bkhd->bqhd", attn, v)
        return self.out_proj(z.flatten(2))
