"""torch's own attention."""

import torch.nn.functional as F
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, query_dim, context_dim, inner_dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(query_dim, inner_dim, bias=False)
        self.to_kv = nn.Linear(context_dim, inner_dim * 2, bias=False)
        self.to_out = nn.Linear(inner_dim, inner_dim)

    def cut(self, t):
        return t.reshape(*t.shape[:2], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x, context):
        half = self.to_q.out_features
        kv = self.to_kv(context)
        given = F.scaled_dot_product_attention(
            self.cut(self.to_q(x)), self.cut(kv[..., :half]), self.cut(kv[..., half:])
        )
        return self.to_out(given.permute(0, 2, 1, 3).reshape(*x.shape[:2], -1))
