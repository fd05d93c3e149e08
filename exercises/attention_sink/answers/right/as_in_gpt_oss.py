"""Style: the mask is added, and each row's largest score subtracted, the sink among them."""

import torch
from torch import nn


class SinkAttention(nn.Module):
    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.sinks = nn.Parameter(torch.empty(num_heads).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        scores = torch.matmul(q, k.transpose(2, 3)) * self.head_dim**-0.5
        least = torch.finfo(scores.dtype).min
        future = torch.full(scores.shape[-2:], least, dtype=scores.dtype, device=x.device)
        scores = scores + future.triu(1)
        sinks = self.sinks.reshape(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[-2], -1)
        combined = torch.cat([scores, sinks], dim=-1)
        combined = combined - combined.max(dim=-1, keepdim=True).values
        shares = nn.functional.softmax(combined, dim=-1, dtype=combined.dtype)
        weights = nn.functional.dropout(shares[..., :-1], p=self.dropout.p, training=self.training)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
