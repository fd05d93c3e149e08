import torch
from torch import nn
import torch.nn.functional as F


class LazyAttention(nn.Module):
    def __init__(self, num_heads=4, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, n, d = x.shape
        to_q = nn.Linear(d, d).to(x)
        to_k = nn.Linear(d, d).to(x)
        to_v = nn.Linear(d, d).to(x)
        q = to_q(x).view(b, n, self.num_heads, -1).transpose(1, 2)
        k = to_k(x).view(b, n, self.num_heads, -1).transpose(1, 2)
        v = to_v(x).view(b, n, self.num_heads, -1).transpose(1, 2)
        w = self.dropout(F.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1))
        return (w @ v).transpose(1, 2).reshape(b, n, d)
