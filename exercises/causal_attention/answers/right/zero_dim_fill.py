"""zero_dim_fill"""
import math
import torch
import torch.nn.functional as F
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.d_out = d_out
        

    def forward(self, x):
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        t = x.shape[1]
        s = q @ k.mT / self.d_out**0.5
        m = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        s = s.masked_fill(m, torch.tensor(float("-inf")))
        return self.dropout(torch.softmax(s, -1)) @ v

