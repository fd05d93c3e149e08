"""Style: divided, tanh and multiplied, one line each; the mask is added."""

import torch
from torch import nn


class SoftcapAttention(nn.Module):
    def __init__(self, d_in, d_out, softcap, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.softcap = softcap
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.W_query(x)), self.split(self.W_key(x)), self.split(self.W_value(x))
        scores = torch.matmul(q, k.transpose(2, 3)) * self.head_dim**-0.5
        scores = scores / self.softcap
        scores = torch.tanh(scores)
        scores = scores * self.softcap
        least = torch.finfo(scores.dtype).min
        future = torch.full(scores.shape[-2:], least, dtype=scores.dtype, device=x.device)
        weights = nn.functional.softmax(scores + future.triu(1), dim=-1)
        weights = nn.functional.dropout(weights, p=self.dropout.p, training=self.training)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
