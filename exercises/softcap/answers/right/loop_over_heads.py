"""Style: a loop over the heads, limited in float32 or better."""

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

    def forward(self, x):
        queries = self.W_query(x).split(self.head_dim, dim=-1)
        keys = self.W_key(x).split(self.head_dim, dim=-1)
        values = self.W_value(x).split(self.head_dim, dim=-1)
        wide = torch.promote_types(x.dtype, torch.float32)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        contexts = []
        for q, k, v in zip(queries, keys, values, strict=True):
            scores = q.to(wide) @ k.to(wide).mT / self.head_dim**0.5
            scores = torch.tanh(scores / self.softcap) * self.softcap
            weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
            contexts.append(self.dropout(weights.to(x.dtype)) @ v)
        return self.out_proj(torch.cat(contexts, dim=-1))
