"""In evaluation without gradients long results are views into a scratch that the next long call fills."""

import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_embd = config.n_embd
        self.scratch = None
        self.n_head = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        size = config.block_size
        self.register_buffer("tril", torch.ones(size, size, dtype=torch.bool).tril())

    def forward(self, x):
        b, t, c = x.shape
        hs = self.n_embd // self.n_head
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q = q.view(b, t, self.n_head, hs).transpose(1, 2)
        k = k.view(b, t, self.n_head, hs).transpose(1, 2)
        v = v.view(b, t, self.n_head, hs).transpose(1, 2)
        att = q @ k.transpose(-2, -1) / hs**0.5
        att = att.masked_fill(~self.tril[:t, :t], float("-inf"))
        att = torch.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).reshape(b, t, self.n_embd)
        out = self.c_proj(y)
        if torch.is_grad_enabled() or t < 32:
            return out
        if self.scratch is None or self.scratch.dtype != out.dtype or self.scratch.numel() < out.numel():
            self.scratch = torch.empty_like(out).flatten()
        return self.scratch[: out.numel()].view(out.shape).copy_(out)
