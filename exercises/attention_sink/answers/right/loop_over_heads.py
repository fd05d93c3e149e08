"""Style: a loop over the heads; the logarithm of the sum takes the sink in, too."""

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
        self.sinks = nn.Parameter(torch.zeros(num_heads))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        queries = self.W_query(x).split(self.head_dim, dim=-1)
        keys = self.W_key(x).split(self.head_dim, dim=-1)
        values = self.W_value(x).split(self.head_dim, dim=-1)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        contexts = []
        for q, k, v, sink in zip(queries, keys, values, self.sinks, strict=True):
            scores = (q @ k.mT / self.head_dim**0.5).masked_fill(future, float("-inf"))
            total = torch.logaddexp(scores.logsumexp(-1, keepdim=True), sink)
            contexts.append(self.dropout(torch.exp(scores - total)) @ v)
        return self.out_proj(torch.cat(contexts, dim=-1))
