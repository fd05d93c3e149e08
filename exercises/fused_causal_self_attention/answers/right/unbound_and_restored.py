"""Queries, keys and values unbound from one unflattened tensor, heads moved and flattened again."""

import torch
import torch.nn.functional as F
from torch import nn


class FusedCausalSelfAttention(nn.Module):
    def __init__(self, block_size, n_head, n_embd):
        super().__init__()
        if n_embd % n_head:
            raise ValueError(f"{n_head} heads do not divide {n_embd}")
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.n_head = n_head
        self.longest = block_size

    def forward(self, x):
        fused = self.c_attn(x).unflatten(-1, (3, self.n_head, -1))
        q, k, v = fused.movedim(-2, 1).unbind(dim=3)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(torch.movedim(heads, 1, -2).flatten(-2))
