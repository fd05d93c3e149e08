import torch
import torch.nn as nn
import torch.nn.functional as F


class PackedAttention(nn.Module):
    def __init__(self, channels=32, groups=4):
        super().__init__()
        assert channels % groups == 0
        self.channels, self.groups = channels, groups
        self.packed = nn.Linear(channels, channels * 3)
        self.w_out = nn.Parameter(torch.randn(channels, channels) / channels ** 0.5)

    def forward(self, x):
        lead = x.shape[:-1]
        c, g = self.channels, self.groups
        p = self.packed(x)
        v = p[..., :c].reshape(*lead, g, c // g).transpose(-2, -3)
        q = p[..., c:2 * c].reshape(*lead, g, c // g).transpose(-2, -3)
        k = p[..., 2 * c:].reshape(*lead, g, c // g).transpose(-2, -3)
        logits = q.matmul(k.transpose(-2, -1)) / (c // g) ** 0.5
        y = logits.softmax(dim=-1).matmul(v)
        y = y.transpose(-2, -3).reshape(*lead, c)
        return F.linear(y, self.w_out)
