"""An autograd.Function with a right backward, the dropped pattern handed in."""

import torch
from torch import nn


def softmax_weights(q, k):
    t = q.shape[-2]
    future = torch.ones(t, t, dtype=torch.bool, device=q.device).triu(1)
    return torch.softmax((q @ k.mT / q.shape[-1] ** 0.5).masked_fill(future, -torch.inf), dim=-1)


class Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, kept):
        ctx.save_for_backward(q, k, v, kept)
        return (softmax_weights(q, k) * kept) @ v

    @staticmethod
    def backward(ctx, grad):
        q, k, v, kept = ctx.saved_tensors
        weights = softmax_weights(q, k)
        grad_v = (weights * kept).mT @ grad
        grad_weights = (grad @ v.mT) * kept
        grad_scores = weights * (grad_weights - (grad_weights * weights).sum(-1, keepdim=True))
        grad_scores = grad_scores / q.shape[-1] ** 0.5
        return grad_scores @ k, grad_scores.mT @ q, grad_v, None


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
        context = Attend.apply(q, k, v, self.dropout(torch.ones(b, self.num_heads, t, t, dtype=q.dtype, device=q.device)))
        context = context.transpose(1, 2).reshape(b, t, self.d_out)
        return self.out_proj(context)
