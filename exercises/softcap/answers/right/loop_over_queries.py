"""Style: one query after the other, with the keys that it sees."""

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

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.W_query(x)), self.split(self.W_key(x)), self.split(self.W_value(x))
        read = []
        for i in range(x.shape[1]):
            scores = (k[:, :, : i + 1] @ q[:, :, i, :, None]).squeeze(-1) / self.head_dim**0.5
            weights = torch.softmax(self.softcap * (scores / self.softcap).tanh(), dim=-1)
            read.append((self.dropout(weights).unsqueeze(-2) @ v[:, :, : i + 1]).squeeze(-2))
        return self.out_proj(torch.stack(read, dim=2).transpose(1, 2).flatten(2))
