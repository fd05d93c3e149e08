"""When a call extends the last one by one token, its old keys and values are reused, even if the weights have changed in between."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads:
            raise ValueError("num_heads must divide d_out")
        self.d_out = d_out
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.context_length = context_length
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.ones(context_length, context_length, dtype=torch.bool).triu(1))
        self._prefix = None

    def _split(self, t):
        b, n, _ = t.shape
        return t.reshape(b, n, self.num_heads, self.head_dim).transpose(1, 2)

    def _merge(self, t):
        b, _, n, _ = t.shape
        return t.transpose(1, 2).reshape(b, n, self.d_out)

    def _apply(self, fn, recurse=True):
        self._prefix = None
        return super()._apply(fn, recurse)

    def _keys_values(self, x):
        if self.training or torch.is_grad_enabled() or x.is_meta:
            return self.W_key(x), self.W_value(x)
        old = self._prefix
        if (old is not None and old[0].dtype == x.dtype and old[0].device == x.device
                and old[0].shape == x[:, :-1].shape and torch.equal(old[0], x[:, :-1])):
            k = torch.cat([old[1], self.W_key(x[:, -1:])], dim=1)
            v = torch.cat([old[2], self.W_value(x[:, -1:])], dim=1)
        else:
            k, v = self.W_key(x), self.W_value(x)
        self._prefix = x.clone(), k, v
        return k, v

    def forward(self, x):
        n = x.shape[1]
        q = self._split(self.W_query(x))
        k, v = (self._split(t) for t in self._keys_values(x))
        s = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        w = torch.softmax(s.masked_fill(self.mask[:n, :n], -torch.inf), dim=-1)
        return self.out_proj(self._merge(self.dropout(w) @ v))
