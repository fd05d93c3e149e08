import torch
from torch import nn


class WindowAttention(nn.Module):
    def __init__(self, dim, heads, window_size):
        super().__init__()
        self.heads, self.window_size = heads, window_size
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(b, t, self.heads, -1).transpose(1, 2)
        k = k.view(b, t, self.heads, -1).transpose(1, 2)
        v = v.view(b, t, self.heads, -1).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        place = torch.arange(t, device=x.device)
        back = place[:, None] - place[None, :]
        hidden = (back < 0) | (back >= self.window_size)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(b, t, d))
