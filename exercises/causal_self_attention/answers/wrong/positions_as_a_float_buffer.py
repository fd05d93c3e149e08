"""Positions are a float buffer, which .to(bfloat16) rounds: from 258 tokens on the future shows through, and it stays so after .to(float32)."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_embd = config.n_embd
        self.n_head = config.n_head
        self.block_size = config.block_size
        self.c_attn = nn.Linear(self.n_embd, 3 * self.n_embd)
        self.c_proj = nn.Linear(self.n_embd, self.n_embd)
        self.register_buffer("future", torch.ones(self.block_size, self.block_size, dtype=torch.bool).triu(1))
        del self.future
        self.register_buffer("positions", torch.arange(self.block_size).float())

    def forward(self, x):
        b, n, d = x.shape
        h = self.n_head
        q, k, v = (t.reshape(b, n, h, d // h).transpose(1, 2) for t in self.c_attn(x).chunk(3, dim=-1))
        pos = self.positions[:n]
        s = q @ k.transpose(-2, -1) / math.sqrt(d // h)
        w = torch.softmax(s.masked_fill(pos[None, :] > pos[:, None], -torch.inf), dim=-1)
        return self.c_proj((w @ v).transpose(1, 2).reshape(b, n, d))
