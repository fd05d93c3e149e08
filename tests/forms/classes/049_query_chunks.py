import torch
from torch import nn


class ChunkedAttention(nn.Module):
    """Saves memory: never holds the whole T x T matrix."""

    def __init__(self, dim, heads=4, chunk=3):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.norm_factor = (dim // heads) ** 0.5
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).unbind(2)
        pieces = []
        for qc in q.split(self.chunk, dim=1):
            s = torch.einsum("bihd,bjhd->bhij", qc, k) / self.norm_factor
            pieces.append(torch.einsum("bhij,bjhd->bihd", s.softmax(dim=-1), v))
        y = torch.cat(pieces, dim=1).reshape(b, n, d)
        return self.to_out(y)
