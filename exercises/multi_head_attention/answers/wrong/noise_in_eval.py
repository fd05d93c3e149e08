"""A little noise is added to the scores, in eval too."""

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

    def project(self, layer, x):
        weight = layer.weight.unflatten(0, (self.num_heads, -1))
        y = torch.einsum("btc,hdc->bhtd", x, weight)
        if layer.bias is None:
            return y
        return y + layer.bias.unflatten(0, (self.num_heads, 1, -1))

    def forward(self, x):
        query = self.project(self.W_query, x)
        key = self.project(self.W_key, x)
        value = self.project(self.W_value, x)
        logits = torch.einsum("bhqd,bhkd->bhqk", query, key) * query.shape[-1] ** -0.5
        logits = logits + 1e-3 * torch.randn_like(logits)
        future = torch.ones(logits.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        probs = self.dropout(logits.masked_fill(future, -torch.inf).softmax(dim=-1))
        ctx = torch.einsum("bhqk,bhkd->bhqd", probs, value)
        w_out = self.out_proj.weight.unflatten(1, (self.num_heads, -1))
        return torch.einsum("bhqd,ohd->bqo", ctx, w_out) + self.out_proj.bias
