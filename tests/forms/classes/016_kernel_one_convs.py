import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvSelfAttention(nn.Module):
    """Self attention whose projections are 1x1 convolutions over time."""

    def __init__(self, channels, n_heads, p_dropout=0.0):
        super().__init__()
        assert channels % n_heads == 0
        self.h = n_heads
        self.k_channels = channels // n_heads
        self.conv_q = nn.Conv1d(channels, channels, 1)
        self.conv_k = nn.Conv1d(channels, channels, 1)
        self.conv_v = nn.Conv1d(channels, channels, 1)
        self.conv_o = nn.Conv1d(channels, channels, 1)
        self.drop = nn.Dropout(p_dropout)

    def forward(self, x):
        b, t, c = x.shape
        xc = x.transpose(1, 2)                                   # b c t
        q = self.conv_q(xc).view(b, self.h, self.k_channels, t)
        k = self.conv_k(xc).view(b, self.h, self.k_channels, t)
        v = self.conv_v(xc).view(b, self.h, self.k_channels, t)
        s = torch.matmul(q.transpose(2, 3), k) / self.k_channels ** 0.5   # b h t t
        p = self.drop(F.softmax(s, dim=3))
        y = torch.matmul(v, p.transpose(2, 3))                   # b h d t
        y = self.conv_o(y.reshape(b, c, t))
        return y.transpose(1, 2)
