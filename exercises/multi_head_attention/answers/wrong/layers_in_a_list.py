"""The layers sit in a plain list, so the module has no parameters of these names."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError("num_heads must divide d_out")
        self.num_heads = num_heads
        self.qkv = [nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3)]
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.ones(context_length, context_length).triu(1).bool())

    def forward(self, x):
        t = x.shape[1]
        q, k, v = (torch.stack(layer(x).chunk(self.num_heads, dim=-1), dim=1) for layer in self.qkv)
        scores = (q @ k.mT) / k.shape[-1] ** 0.5
        scores = scores.masked_fill(self.mask[:t, :t], float("-inf"))
        weights = self.dropout(scores.softmax(dim=-1))
        return self.out_proj(torch.cat((weights @ v).unbind(1), dim=-1))
