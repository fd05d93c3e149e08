"""Queries, keys and values apart, and a mask that is true where a query may not look."""

import torch
from torch import nn


class MultiHead(nn.Module):
    def __init__(self, n_head, d_model):
        super().__init__()
        self.n_head = n_head
        self.w_qs = nn.Linear(d_model, d_model, bias=False)
        self.w_ks = nn.Linear(d_model, d_model, bias=False)
        self.w_vs = nn.Linear(d_model, d_model, bias=False)
        self.fc = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        q, k, v = (
            layer(t).view(t.shape[0], t.shape[1], self.n_head, -1).transpose(1, 2)
            for layer, t in ((self.w_qs, q), (self.w_ks, k), (self.w_vs, v))
        )
        attn = torch.matmul(q, k.transpose(2, 3)) / q.shape[-1] ** 0.5
        if mask is not None:
            attn = attn.masked_fill(mask.unsqueeze(1), float("-inf"))
        attn = torch.softmax(attn, dim=-1)
        out = torch.matmul(attn, v).transpose(1, 2).flatten(2)
        return self.fc(out), attn
