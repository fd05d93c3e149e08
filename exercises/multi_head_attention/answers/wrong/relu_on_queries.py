"""The queries go through a relu. (named: relu_on_projections)"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "d_out must be divisible by num_heads"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.dropout = dropout
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.register_buffer("mask", torch.tril(torch.ones(context_length, context_length)))

    def forward(self, x):
        b, t, _ = x.shape
        hd = self.head_dim
        xq = F.relu(self.W_query(x)) * hd**-0.5
        xk = self.W_key(x)
        xv = self.W_value(x)
        # heads to the front: (h, b, t, hd)
        xq = torch.stack(xq.split(hd, dim=-1))
        xk = torch.stack(xk.split(hd, dim=-1))
        xv = torch.stack(xv.split(hd, dim=-1))

        hidden = self.mask[:t, :t] == 0
        dots = (xq @ xk.transpose(-1, -2)).masked_fill(hidden, float("-inf"))
        weights = F.softmax(dots, dim=-1)
        weights = F.dropout(weights, p=self.dropout, training=self.training)
        result = weights @ xv
        result = torch.cat(result.unbind(0), dim=-1)
        return self.out_proj(result)
