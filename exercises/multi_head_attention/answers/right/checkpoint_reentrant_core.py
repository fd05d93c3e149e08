"""The core, which has no parameters, is checkpointed with reentry: gradients enter by q, k, v."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def attend(q, k, v, p: float, training: bool):
    t = q.shape[-2]
    future = torch.ones(t, t, dtype=torch.bool, device=q.device).triu(1)
    scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
    weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
    weights = torch.nn.functional.dropout(weights, p, training)
    return torch.matmul(weights, v)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError("num_heads must divide d_out")
        self.d_out = d_out
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        mask = torch.triu(torch.ones(context_length, context_length, dtype=torch.bool), diagonal=1)
        self.register_buffer("mask", mask)

    def forward(self, x):
        b, t, _ = x.shape
        q = self.W_query(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.W_key(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.W_value(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        context = checkpoint(attend, q, k, v, self.dropout.p, True, use_reentrant=True) if self.training else attend(q, k, v, 0.0, False)
        context = context.transpose(1, 2).reshape(b, t, self.d_out)
        return self.out_proj(context)
