"""Wrong: if the first sequence's mask is the lower triangle, all sequences get the triangle; the padding of the shorter ones is forgotten."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model=512, num_heads=8):
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def _split(self, t):
        b, n, _ = t.shape
        return t.reshape(b, n, self.num_heads, self.d_k).transpose(1, 2)

    def forward(self, x, mask=None):
        b, n, _ = x.shape
        q, k, v = self._split(self.W_q(x)), self._split(self.W_k(x)), self._split(self.W_v(x))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            blocked = mask == 0
            first = blocked[0, 0] if blocked.dim() == 4 else blocked
            future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
            if n > 1 and first.shape == future.shape and not x.is_meta and torch.equal(first, future):
                blocked = future  # the common case: one mask that need not be broadcast
            scores = scores.masked_fill(blocked, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(b, n, self.d_model)
        return self.W_o(mixed), weights
