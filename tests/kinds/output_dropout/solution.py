"""Two layers of dropout, as in minGPT."""

import math

import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, d_in, n_embd, n_head, attn_pdrop, resid_pdrop):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(d_in, n_embd, bias=False)
        self.key = nn.Linear(d_in, n_embd, bias=False)
        self.value = nn.Linear(d_in, n_embd, bias=False)
        self.proj = nn.Linear(n_embd, n_embd)
        self.attn_drop, self.resid_drop = nn.Dropout(attn_pdrop), nn.Dropout(resid_pdrop)

    def forward(self, x):
        layers = (self.query, self.key, self.value)
        q, k, v = (f(x).unflatten(-1, (self.n_head, -1)).transpose(1, 2) for f in layers)
        att = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        att = att.masked_fill(later, float("-inf")).softmax(-1)
        att = self.attn_drop(att)
        y = (att @ v).transpose(1, 2).flatten(2)
        y = self.proj(y)
        return self.resid_drop(y)
