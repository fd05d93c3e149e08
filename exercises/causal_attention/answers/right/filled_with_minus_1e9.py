"""Fills the future with -1e9; the mask is a float triangle with a batch dimension."""

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
        lower = torch.tril(torch.ones(context_length, context_length))
        self.register_buffer("bias", lower.view(1, context_length, context_length))

    def forward(self, x):
        b, t, _ = x.size()
        q = self.W_query(x)
        k = self.W_key(x)
        v = self.W_value(x)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :t, :t] == 0, -1e9)
        att = F.softmax(att, dim=-1)
        att = self.dropout(att)
        return att @ v
