import torch
import torch.nn as nn


class MaskedMultiHeadAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dim = config.get("dim", 64)
        self.heads = config.get("heads", 4)
        self.hd = self.dim // self.heads
        self.q = nn.Linear(self.dim, self.dim)
        self.k = nn.Linear(self.dim, self.dim)
        self.v = nn.Linear(self.dim, self.dim)
        self.o = nn.Linear(self.dim, self.dim)

    def forward(self, x):
        B, T, _ = x.shape
        q = self.q(x).reshape(B, T, self.heads, self.hd)
        k = self.k(x).reshape(B, T, self.heads, self.hd)
        v = self.v(x).reshape(B, T, self.heads, self.hd)
        s = torch.einsum("bihd,bjhd->bhij", q, k) / self.hd ** 0.5
        keep = torch.tril(torch.ones(T, T, device=x.device), diagonal=1).bool()
        s = s.masked_fill(~keep, -1e4)
        p = torch.softmax(s, dim=-1)
        return self.o(torch.einsum("bhij,bjhd->bihd", p, v).reshape(B, T, self.dim))
