"""Throws the dice itself: a keep mask from torch.rand, divided by the share that is kept."""

import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        layers = {n: nn.Linear(d_in, d_out, bias=qkv_bias) for n in ("W_query", "W_key", "W_value")}
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.dropout = dropout

    def forward(self, x):
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        s = (q.unsqueeze(2) * k.unsqueeze(1)).sum(-1) / k.size(-1) ** 0.5
        i = torch.arange(x.size(1), device=x.device)
        s[:, i.unsqueeze(1) < i] = -torch.inf
        w = torch.exp(s - s.logsumexp(-1, keepdim=True))
        if self.training and self.dropout > 0:
            keep = torch.rand(w.shape, device=w.device) >= self.dropout
            w = w * keep / (1 - self.dropout)
        return (w.unsqueeze(-1) * v.unsqueeze(1)).sum(2)
