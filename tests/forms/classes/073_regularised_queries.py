import torch
import torch.nn as nn
import torch.nn.functional as F


class DropAttention(nn.Module):
    def __init__(self, dim, heads, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)
        self.attn_dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, n, d = x.shape
        hd = d // self.heads
        q = self.attn_dropout(self.wq(x)).view(b, n, self.heads, hd).transpose(1, 2)
        k = self.wk(x).view(b, n, self.heads, hd).transpose(1, 2)
        v = self.wv(x).view(b, n, self.heads, hd).transpose(1, 2)
        weights = F.softmax(q @ k.transpose(-1, -2) / hd ** 0.5, dim=-1)
        out = (weights @ v).transpose(1, 2).reshape(b, n, d)
        return self.wo(out), weights
