"""Style: one product of joined weights, cut into unequal parts."""

import torch
from torch import nn


class GroupedQueryAttention(nn.Module):
    """Neighbouring heads share keys and values."""

    def __init__(self, d_in, d_out, dropout, num_heads, num_kv_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        assert num_heads % num_kv_heads == 0, "num_kv_heads must divide num_heads"
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.group = num_heads // num_kv_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def split(self, tokens):
        return tokens.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def project(self, x):
        layers = (self.W_query, self.W_key, self.W_value)
        weight = torch.cat([layer.weight for layer in layers])
        bias = None
        if self.W_query.bias is not None:
            bias = torch.cat([layer.bias for layer in layers])
        widths = [layer.out_features for layer in layers]
        return nn.functional.linear(x, weight, bias).split(widths, dim=-1)

    def forward(self, x):
        q, k, v = map(self.split, self.project(x))
        k, v = (t.unsqueeze(2).expand(-1, -1, self.group, -1, -1).flatten(1, 2) for t in (k, v))
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = (q @ k.mT / self.head_dim**0.5).masked_fill(future, -torch.inf)
        weights = self.dropout(torch.log_softmax(scores, dim=-1).exp())
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
