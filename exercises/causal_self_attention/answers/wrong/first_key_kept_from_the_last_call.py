"""Remembers the first key of the last call and uses it in the next one."""

import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        c = config.n_embd
        self.h = config.n_head
        self.memory = None
        self.c_attn, self.c_proj = nn.Linear(c, 3 * c), nn.Linear(c, c)

    def forward(self, x):
        b, t, c = x.shape
        d = c // self.h
        q, k, v = (z.reshape(b, t, self.h, d).swapaxes(1, 2) for z in self.c_attn(x).chunk(3, -1))
        never = torch.full((t, t), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
        if self.memory is not None and self.memory.shape[:2] == k.shape[:2]:
            k = torch.cat([self.memory, k[:, :, 1:]], dim=2)
        self.memory = k[:, :, :1].detach()
        a = (q @ k.mT / d**0.5 + never).softmax(-1)
        return self.c_proj((a @ v).swapaxes(1, 2).reshape(b, t, c))
