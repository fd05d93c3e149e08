"""Takes the fused projection as query, key, value of head 0, then of head 1, and so on. (named: packed_projection_cut_wrongly)"""

import torch.nn as nn
import torch.nn.functional as F


class FusedCausalSelfAttention(nn.Module):
    def __init__(self, block_size, n_head, n_embd):
        super().__init__()
        assert n_embd % n_head == 0
        self.n_head = n_head
        self.n_embd = n_embd
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        qkv = self.c_attn(x).view(B, T, self.n_head, 3 * (C // self.n_head)).transpose(1, 2)
        q, k, v = qkv.chunk(3, dim=-1)  # (B, nh, T, hs)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)
