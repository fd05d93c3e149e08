"""torch's own attention for each map, its own RMS norm, and the factor on the output layer."""

import torch
import torch.nn.functional as F
from torch import nn


class DiffAttention(nn.Module):
    def __init__(self, embed_dim, inner_dim, num_heads):
        super().__init__()
        self.heads = num_heads
        self.q_proj = nn.Linear(embed_dim, inner_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, inner_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, inner_dim, bias=False)
        self.out_proj = nn.Linear(inner_dim, inner_dim, bias=False)
        self.lambda_full = nn.Parameter(0.8 * torch.ones(num_heads))
        self.subln = nn.RMSNorm(inner_dim // num_heads, eps=1e-5)

    def forward(self, x):
        q, k = (
            layer(x).unflatten(-1, (self.heads, 2, -1)).permute(3, 0, 2, 1, 4)
            for layer in (self.q_proj, self.k_proj)
        )
        v = self.v_proj(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        one, two = (
            F.scaled_dot_product_attention(q[i], k[i], v, is_causal=True) for i in range(2)
        )
        each = self.subln(one - self.lambda_full[:, None, None] * two)
        return 0.2 * self.out_proj(each.transpose(1, 2).flatten(2))
