import torch
from torch import nn
import torch.nn.functional as F


class MaskedAttention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.dim = dim
        self.W = nn.Linear(dim, dim * 3, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, mask):
        bs, n, _ = x.shape
        q, k, v = self.W(x).reshape(bs, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2)
        scores /= q.shape[-1] ** 0.5
        neg = torch.finfo(scores.dtype).min
        scores = torch.where(mask.unsqueeze(1), scores, scores.new_tensor(neg))
        return self.out((F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(bs, n, self.dim))
