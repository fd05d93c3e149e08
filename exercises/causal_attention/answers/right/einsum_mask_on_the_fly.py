"""einsum throughout, and a mask made from positions in every call."""

import torch
import torch.nn.functional as F
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.drop = nn.Dropout(p=dropout)

    def forward(self, x):
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = torch.einsum("bqd,bkd->bqk", q, k) * q.size(-1) ** -0.5
        position = torch.arange(x.size(1), device=x.device)
        future = position[None, :] > position[:, None]
        weights = F.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        return torch.einsum("bqk,bkd->bqd", self.drop(weights), v)
