"""Each token's value is multiplied by its own weight, nothing is averaged. (named: own_value_only)"""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError("num_heads must divide d_out")
        self.dropout = dropout
        self.num_heads = num_heads
        self.d_head = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.register_buffer("lower", torch.ones(context_length, context_length).tril().bool())

    def drop(self, alpha):
        if not self.training or self.dropout == 0:
            return alpha
        if self.dropout == 1:
            return torch.zeros_like(alpha)
        keep = 1 - self.dropout
        kept = torch.empty_like(alpha).bernoulli_(keep)
        return alpha * kept / keep

    def forward(self, x):
        batch_size, t, _ = x.shape
        q, k, v = (
            layer(x).view(batch_size, t, self.num_heads, self.d_head).permute(0, 2, 1, 3)
            for layer in (self.W_query, self.W_key, self.W_value)
        )
        energy = q @ k.permute(0, 1, 3, 2) / self.d_head**0.5
        energy = energy.masked_fill(~self.lower[:t, :t], float("-inf"))
        alpha = self.drop(torch.softmax(energy, dim=-1))
        merged = (alpha.diagonal(dim1=2, dim2=3).unsqueeze(-1) * v).permute(0, 2, 1, 3).flatten(2)
        return self.out_proj(merged)
