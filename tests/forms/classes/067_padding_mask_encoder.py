import torch
from torch import nn


class PaddedSelfAttention(nn.Module):
    """
    x:    (B, T, E)
    mask: (B, T) bool, True for real tokens, False for padding
    """

    def __init__(self, E, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj = nn.Linear(E, E)
        self.k_proj = nn.Linear(E, E)
        self.v_proj = nn.Linear(E, E)
        self.out_proj = nn.Linear(E, E)

    def forward(self, x, mask=None):
        B, T, E = x.shape
        d = E // self.n_heads
        q = self.q_proj(x).view(B, T, self.n_heads, d).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.n_heads, d).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.n_heads, d).transpose(1, 2)
        s = q @ k.transpose(2, 3) / d ** 0.5
        if mask is not None:
            s = s.masked_fill(mask[:, None, None, :], -1e9)
        y = s.softmax(-1) @ v
        return self.out_proj(y.transpose(1, 2).reshape(B, T, E))
