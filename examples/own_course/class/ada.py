"""Ada's answer: one einsum, other names, the same layers."""

import math

import torch
from torch import nn


class MHA(nn.Module):
    def __init__(self, embed_dim, n_head):
        super().__init__()
        self.n_head = n_head
        self.q_lin = nn.Linear(embed_dim, embed_dim)
        self.k_lin = nn.Linear(embed_dim, embed_dim)
        self.v_lin = nn.Linear(embed_dim, embed_dim)
        self.out_lin = nn.Linear(embed_dim, embed_dim)

    def forward(self, q, k, v, attn_mask=None):
        parts = [self.q_lin(q), self.k_lin(k), self.v_lin(v)]
        query, key, value = (part.unflatten(-1, (self.n_head, -1)) for part in parts)
        scores = torch.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(query.shape[-1])
        if attn_mask is not None:
            scores = scores + attn_mask
        mixed = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), value)
        return self.out_lin(mixed.flatten(2))
