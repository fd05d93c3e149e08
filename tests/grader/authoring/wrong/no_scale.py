"""The scores are not divided by the root of the width. (named: no_scale)"""

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

    def heads(self, t):
        batch, length, width = t.shape
        return t.view(batch, length, self.n_head, width // self.n_head).transpose(1, 2)

    def forward(self, q, k, v, attn_mask=None):
        q = self.heads(self.q_lin(q))
        k = self.heads(self.k_lin(k))
        v = self.heads(self.v_lin(v))
        scores = q @ k.transpose(-2, -1)
        if attn_mask is not None:
            scores = scores + attn_mask
        weights = torch.softmax(scores, dim=-1)
        merged = (weights @ v).transpose(1, 2).flatten(2)
        return self.out_lin(merged)
