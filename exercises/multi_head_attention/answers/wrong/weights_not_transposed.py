"""The weight matrices are used as if they were stored as (inputs, outputs). (named: weights_reshaped)"""

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
        weight = layer.weight.reshape(x.shape[-1], self.num_heads, -1)
        y = torch.einsum("btc,chd->bhtd", x, weight)
        if layer.bias is None:
            return y
        return y + layer.bias.unflatten(0, (self.num_heads, 1, -1))

    def forward(self, x):
        q = self.project(self.W_query, x)
        k = self.project(self.W_key, x)
        v = self.project(self.W_value, x)
        att = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
        future = torch.ones(att.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        attn = self.dropout(att.masked_fill(future, -torch.inf).softmax(dim=-1))
        z = torch.einsum("bhqk,bhkd->bhqd", attn, v)
        w_out = self.out_proj.weight.unflatten(1, (self.num_heads, -1))
        return torch.einsum("bhqd,ohd->bqo", z, w_out) + self.out_proj.bias
