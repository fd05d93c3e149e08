"""Masks after the softmax and renormalises: 0/0 once the future takes all the weight. (named: renormalised_after_softmax)"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("tril", torch.tril(torch.ones(context_length, context_length)))

    def forward(self, x):
        b, t, _ = x.shape
        queries = self.W_query(x)
        keys = self.W_key(x)
        values = self.W_value(x)
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.size(-1))
        weights = F.softmax(scores, dim=-1)
        weights = weights * self.tril[:t, :t].to(weights.dtype)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return self.dropout(weights) @ values
