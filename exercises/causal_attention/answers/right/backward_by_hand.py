"""An autograd.Function with the derivatives of attention written out, dropout included."""

import torch
from torch import nn


class Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, p):
        t, d = q.shape[1:]
        s = torch.einsum("bqd,bkd->bqk", q, k) / d**0.5
        s.masked_fill_(torch.ones(t, t, dtype=torch.bool, device=q.device).triu(1), -torch.inf)
        w = s.softmax(-1)
        keep = (
            torch.ones_like(w) if p == 0 else torch.bernoulli(torch.full_like(w, 1 - p)) / (1 - p)
        )
        ctx.save_for_backward(q, k, v, w, keep)
        return (w * keep) @ v

    @staticmethod
    def backward(ctx, g):
        q, k, v, w, keep = ctx.saved_tensors
        gv = (w * keep).mT @ g
        gw = (g @ v.mT) * keep
        gs = w * (gw - (gw * w).sum(-1, keepdim=True)) / q.shape[-1] ** 0.5
        return gs @ k, gs.mT @ q, gv, None


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        return Attend.apply(q, k, v, self.dropout.p if self.training else 0.0)
