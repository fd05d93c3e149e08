import torch
import torch.nn as nn


class MultiQueryAttention(nn.Module):
    def __init__(self, dim, heads=8, dim_head=16):
        super().__init__()
        self.heads = heads
        self.scale = dim_head ** -0.5
        self.to_q = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim_head, bias=False)
        self.to_out = nn.Linear(heads * dim_head, dim)

    def forward(self, x, context=None):
        c = x if context is None else context
        b, n, _ = x.shape
        q = self.to_q(x).view(b, n, self.heads, -1).transpose(1, 2) * self.scale
        k, v = self.to_kv(c).chunk(2, dim=-1)
        sim = torch.einsum("bhid,bjd->bhij", q, k)
        out = torch.einsum("bhij,bjd->bhid", sim.softmax(-1), v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))
