"""Style: one distance after the other, with a running maximum and sum."""

import torch
from torch import nn


class GatedAttention(nn.Module):
    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.W_gate = nn.Linear(d_in, d_out, bias=False)
        self.dropout = nn.Dropout(dropout)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        top = torch.full_like(q[..., :1], -torch.inf)
        total, context = torch.zeros_like(top), torch.zeros_like(q)
        for back in range(x.shape[1]):
            near, far = k.roll(back, dims=2), v.roll(back, dims=2)
            scores = (q * near).sum(-1, keepdim=True) / self.head_dim**0.5
            early = torch.arange(x.shape[1], device=x.device) < back
            scores = scores.masked_fill(early[:, None], -torch.inf)
            largest = torch.maximum(top, scores)
            shrink, power = (top - largest).exp(), (scores - largest).exp()
            total = total * shrink + power
            context = context * shrink + self.dropout(power) * far
            top = largest
        merged = (context / total).transpose(1, 2).flatten(2)
        return self.out_proj(merged * nn.functional.logsigmoid(self.W_gate(x)).exp())
