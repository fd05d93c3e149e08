"""Style: heads folded into the batch; the sinks are repeated for every sequence."""

import torch
from torch import nn


class SinkAttention(nn.Module):
    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.sinks = nn.Parameter(torch.zeros(num_heads))
        self.dropout = nn.Dropout(dropout)

    def fold(self, tokens):
        batch, length, _ = tokens.shape
        heads = tokens.reshape(batch, length, self.num_heads, self.head_dim)
        return heads.permute(0, 2, 1, 3).flatten(0, 1)

    def forward(self, x):
        q, k, v = self.fold(self.W_query(x)), self.fold(self.W_key(x)), self.fold(self.W_value(x))
        nothing = q.new_zeros(q.shape[0], q.shape[1], k.shape[1])
        scores = torch.baddbmm(nothing, q, k.mT, alpha=self.head_dim**-0.5)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
        sinks = self.sinks.repeat(x.shape[0])[:, None, None].expand(-1, x.shape[1], -1)
        weights = torch.cat((scores, sinks), dim=2).softmax(dim=2).narrow(2, 0, x.shape[1])
        context = torch.bmm(self.dropout(weights), v).unflatten(0, (x.shape[0], self.num_heads))
        return self.out_proj(context.transpose(1, 2).flatten(2))
