"""Query, key and value have layers of their own; there is no c_attn."""

import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        c = config.n_embd
        self.h = config.n_head
        self.q_attn, self.k_attn, self.v_attn = nn.Linear(c, c), nn.Linear(c, c), nn.Linear(c, c)
        self.c_proj = nn.Linear(c, c)

    def forward(self, x):
        b, t, c = x.shape
        d = c // self.h
        qkv = (self.q_attn(x), self.k_attn(x), self.v_attn(x))
        q, k, v = (z.reshape(b, t, self.h, d).swapaxes(1, 2) for z in qkv)
        never = torch.full((t, t), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
        a = (q @ k.mT / d**0.5 + never).softmax(-1)
        return self.c_proj((a @ v).swapaxes(1, 2).reshape(b, t, c))
