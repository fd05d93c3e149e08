import torch
import torch.nn as nn


class NaiveAttention(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        hd = d // self.n_heads
        q = self.q(x).view(b, t, self.n_heads, hd).transpose(1, 2)
        k = self.k(x).view(b, t, self.n_heads, hd).transpose(1, 2)
        v = self.v(x).view(b, t, self.n_heads, hd).transpose(1, 2)
        e = torch.exp(q @ k.transpose(2, 3) / hd ** 0.5)
        e = e * torch.ones(t, t, device=x.device, dtype=x.dtype).tril()
        a = e / e.sum(dim=-1, keepdim=True)
        return self.out((a @ v).transpose(1, 2).reshape(b, t, d))
