"""In evaluation without gradients the heads' weights are stacked once and kept until the next .train(), .to() or own load_state_dict; an optimizer step in evaluation mode (fine-tuning without dropout) that moves W_value only is not seen."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.ones(context_length, context_length, dtype=torch.bool).triu(1))

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        s = q @ k.transpose(1, 2) / math.sqrt(k.shape[-1])
        w = torch.softmax(s.masked_fill(self.mask[:n, :n], -torch.inf), dim=-1)
        return self.dropout(w) @ v


class MultiHeadAttentionWrapper(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.heads = nn.ModuleList(
            CausalAttention(d_in, d_out, context_length, dropout, qkv_bias) for _ in range(num_heads)
        )
        self._stack = None

    def __getstate__(self):
        return {**self.__dict__, "_stack": None}

    def _apply(self, fn, recurse=True):
        self._stack = None
        return super()._apply(fn, recurse)

    def train(self, mode=True):
        self._stack = None
        return super().train(mode)

    def forward(self, x):
        first = self.heads[0]
        if self.training or torch.is_grad_enabled() or first.W_query.bias is not None or x.is_meta or first.W_query.weight.is_inference():
            return torch.cat([head(x) for head in self.heads], dim=-1)
        b, n, _ = x.shape
        key = tuple(head.W_query.weight._version for head in self.heads)
        if self._stack is None or self._stack[0] != key:
            self._stack = key, [torch.cat([getattr(head, name).weight for head in self.heads]) for name in ("W_query", "W_key", "W_value")]
        q, k, v = (F.linear(x, w).view(b, n, len(self.heads), -1).transpose(1, 2) for w in self._stack[1])
        s = q @ k.transpose(2, 3) / math.sqrt(k.shape[-1])
        w = torch.softmax(s.masked_fill(first.mask[:n, :n], -torch.inf), dim=-1)
        return (w @ v).transpose(1, 2).reshape(b, n, -1)
