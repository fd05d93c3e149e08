"""Attends with a single head, whatever n_head says. (named: one_head)"""

import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        c = config.n_embd
        self.h = 1  # the heads come out side by side anyway
        self.c_attn, self.c_proj = nn.Linear(c, 3 * c), nn.Linear(c, c)

    def forward(self, x):
        b, t, c = x.shape
        d = c // self.h
        q, k, v = (z.reshape(b, t, self.h, d).swapaxes(1, 2) for z in self.c_attn(x).chunk(3, -1))
        never = torch.full((t, t), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
        a = (q @ k.mT / d**0.5 + never).softmax(-1)
        return self.c_proj((a @ v).swapaxes(1, 2).reshape(b, t, c))
