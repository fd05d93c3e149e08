"""With the heads in front, the merge reads batch and heads in the wrong order."""

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
        bs, t, _ = x.shape
        hd = self.head_dim
        q = self.W_query(x) * hd**-0.5
        k = self.W_key(x)
        v = self.W_value(x)
        # heads to the front: (h, bs, t, hd)
        q = torch.stack(q.split(hd, dim=-1))
        k = torch.stack(k.split(hd, dim=-1))
        v = torch.stack(v.split(hd, dim=-1))

        hidden = self.mask[:t, :t] == 0
        att = (q @ k.transpose(-1, -2)).masked_fill(hidden, float("-inf"))
        attn = F.softmax(att, dim=-1)
        attn = F.dropout(attn, p=self.dropout, training=self.training)
        z = attn @ v
        z = z.reshape(bs, -1, t, hd).transpose(1, 2).reshape(bs, t, -1)
        return self.out_proj(z)
