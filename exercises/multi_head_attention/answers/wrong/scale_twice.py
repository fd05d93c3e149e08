"""The queries are scaled and so are the scores. (named: scale_without_root)"""

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
        batch, t, _ = x.shape
        hd = self.head_dim
        queries = self.W_query(x) * hd**-0.5
        keys = self.W_key(x)
        values = self.W_value(x)
        # heads to the front: (h, batch, t, hd)
        queries = torch.stack(queries.split(hd, dim=-1))
        keys = torch.stack(keys.split(hd, dim=-1))
        values = torch.stack(values.split(hd, dim=-1))

        hidden = self.mask[:t, :t] == 0
        attn_scores = (queries @ keys.transpose(-1, -2)).masked_fill(hidden, float("-inf"))
        attn_scores = attn_scores / hd**0.5
        attn_weights = F.softmax(attn_scores, dim=-1)
        attn_weights = F.dropout(attn_weights, p=self.dropout, training=self.training)
        context = attn_weights @ values
        context = torch.cat(context.unbind(0), dim=-1)
        return self.out_proj(context)
