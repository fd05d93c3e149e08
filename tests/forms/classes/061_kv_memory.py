import torch
from torch import nn


class MemoryAttention(nn.Module):
    def __init__(self, dim, memory_dim, heads=4):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim)
        self.to_kv = nn.Linear(memory_dim, 2 * dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, memory):
        b, n, d = x.shape
        m = memory.shape[1]
        q = self.to_q(x).reshape(b, n, self.heads, -1).transpose(1, 2)
        k, v = self.to_kv(memory).chunk(2, dim=-1)
        k = k.reshape(b, m, self.heads, -1).transpose(1, 2)
        v = v.reshape(b, m, self.heads, -1).transpose(1, 2)
        sim = q @ k.transpose(-1, -2) * self.scale
        attn = sim.softmax(dim=-1)
        out = torch.einsum("bhij,bhjd->bhid", attn, k)
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))
