"""Uses the mask of the first head for all of them. (named: mask_of_first_head)"""

import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model=512, num_heads=8):
        super().__init__()
        self.h = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        b, t, d_model = x.shape
        d_k = d_model // self.h
        if mask is None:
            mask = torch.ones(t, t, dtype=torch.bool, device=x.device)
        allowed = (mask != 0).expand(b, self.h, t, t)

        q, k, v = self.W_q(x), self.W_k(x), self.W_v(x)
        contexts, weights = [], []
        for i in range(self.h):
            part = slice(i * d_k, (i + 1) * d_k)
            s = q[..., part] @ k[..., part].mT / math.sqrt(d_k)
            s = torch.where(allowed[:, 0], s, -math.inf)
            w = torch.softmax(s, dim=-1)
            contexts.append(w @ v[..., part])
            weights.append(w)
        return self.W_o(torch.cat(contexts, dim=-1)), torch.stack(weights, dim=1)
