"""Style: softmax and sigmoid written out in exponentials, none of which overflows."""

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
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = (q @ k.mT / self.head_dim**0.5).masked_fill(future, float("-inf"))
        powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True).detach())
        weights = self.dropout(powers / powers.sum(dim=-1, keepdim=True))
        context = (weights @ v).transpose(1, 2).flatten(2)
        asked = self.W_gate(x)
        low, high = torch.exp(asked.clamp(max=0)), torch.exp(-asked.clamp(min=0))
        gate = torch.where(asked < 0, low / (1 + low), 1 / (1 + high))
        return self.out_proj(context * gate)
