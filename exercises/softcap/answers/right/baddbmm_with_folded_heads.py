"""Style: heads folded into the batch, the products scaled by baddbmm."""

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

    def fold(self, tokens):
        batch, length, _ = tokens.shape
        heads = tokens.reshape(batch, length, self.num_heads, self.head_dim)
        return heads.permute(0, 2, 1, 3).flatten(0, 1)

    def forward(self, x):
        q, k, v = self.fold(self.W_query(x)), self.fold(self.W_key(x)), self.fold(self.W_value(x))
        nothing = q.new_zeros(q.shape[0], q.shape[1], k.shape[1])
        share = torch.baddbmm(nothing, q, k.mT, alpha=self.head_dim**-0.5).div_(self.softcap).tanh()
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        weights = (share * self.softcap).masked_fill(future, float("-inf")).softmax(dim=2)
        weights = self.dropout(weights)
        context = torch.bmm(weights, v).unflatten(0, (x.shape[0], self.num_heads))
        return self.out_proj(context.transpose(1, 2).flatten(2))
