"""The scores are multiplied by a triangle of ones, so hidden scores are zero. (named: filled_with_zero)"""

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
        self.register_buffer("visible", torch.ones(context_length, context_length).tril())

    def split(self, y):
        return y.reshape(y.shape[0], y.shape[1], self.h, self.d_k)

    def forward(self, x):
        n = x.shape[1]
        query = self.split(self.W_query(x))
        key = self.split(self.W_key(x))
        v = self.split(self.W_value(x))
        logits = torch.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(self.d_k)
        logits = logits * self.visible[:n, :n]
        probs = self.drop(logits.softmax(dim=-1))
        ctx = torch.einsum("bhqk,bkhd->bqhd", probs, v)
        return self.out_proj(ctx.flatten(2))
