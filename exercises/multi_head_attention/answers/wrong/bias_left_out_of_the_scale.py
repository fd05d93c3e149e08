"""The query is scaled before its bias is added, so the bias counts too much."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "heads must fit"
        self.num_heads = num_heads
        self.dropout = nn.Dropout(dropout)
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)

    def project(self, layer, x, scale=1.0):
        weight = layer.weight.unflatten(0, (self.num_heads, -1))
        y = torch.einsum("btc,hdc->bhtd", x, weight) * scale
        if layer.bias is None:
            return y
        return y + layer.bias.unflatten(0, (self.num_heads, 1, -1))

    def forward(self, x):
        xq = self.project(self.W_query, x, (self.W_query.out_features / self.num_heads) ** -0.5)
        xk = self.project(self.W_key, x)
        xv = self.project(self.W_value, x)
        dots = torch.einsum("bhqd,bhkd->bhqk", xq, xk)
        future = torch.ones(dots.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        weights = self.dropout(dots.masked_fill(future, -torch.inf).softmax(dim=-1))
        result = torch.einsum("bhqk,bhkd->bhqd", weights, xv)
        w_out = self.out_proj.weight.unflatten(1, (self.num_heads, -1))
        return torch.einsum("bhqd,ohd->bqo", result, w_out) + self.out_proj.bias
