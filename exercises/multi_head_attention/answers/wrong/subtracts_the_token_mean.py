"""The input is centred over all tokens, so the future leaks. (named: input_centred)"""

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
        x = x - x.mean(dim=1, keepdim=True)
        q = self.split(self.W_query(x))
        k = self.split(self.W_key(x))
        v = self.split(self.W_value(x))
        energy = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(self.d_k)
        energy = energy.masked_fill(~self.visible[:n, :n], -math.inf)
        alpha = self.drop(energy.softmax(dim=-1))
        mixed = torch.einsum("bhqk,bkhd->bqhd", alpha, v)
        return self.out_proj(mixed.flatten(2))
