"""The weights are listed once in __init__ and used from the list: load_state_dict(assign=True) and functional_call are ignored."""

import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_embd = config.n_embd
        self.n_head = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.cut = [self.c_attn.weight, self.c_attn.bias, self.c_proj.weight, self.c_proj.bias]
        size = config.block_size
        self.register_buffer("tril", torch.ones(size, size, dtype=torch.bool).tril())

    def forward(self, x):
        b, t, c = x.shape
        hs = self.n_embd // self.n_head
        q, k, v = nn.functional.linear(x, self.cut[0], self.cut[1]).split(self.n_embd, dim=2)
        q = q.view(b, t, self.n_head, hs).transpose(1, 2)
        k = k.view(b, t, self.n_head, hs).transpose(1, 2)
        v = v.view(b, t, self.n_head, hs).transpose(1, 2)
        att = q @ k.transpose(-2, -1) / hs**0.5
        att = att.masked_fill(~self.tril[:t, :t], float("-inf"))
        att = torch.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).reshape(b, t, self.n_embd)
        return nn.functional.linear(y, self.cut[2], self.cut[3])
