"""Beyond 192 tokens queries come in chunks with is_causal=True, which aligns the triangle with the first key."""

import torch
import torch.nn.functional as F
from torch import nn


class FusedCausalSelfAttention(nn.Module):
    def __init__(self, block_size, n_head, n_embd):
        super().__init__()
        self.block_size = block_size
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.c_attn(x).split(c, dim=2)
        q = q.view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
        k = k.view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
        v = v.view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
        if t <= 192:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            parts = []
            for i in range(0, t, 192):
                end = min(i + 192, t)
                parts.append(F.scaled_dot_product_attention(q[:, :, i:end], k[:, :, :end], v[:, :, :end], is_causal=True))
            y = torch.cat(parts, dim=2)
        return self.c_proj(y.transpose(1, 2).reshape(b, t, c))
