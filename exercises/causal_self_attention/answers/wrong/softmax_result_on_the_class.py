"""The softmax keeps its result on the class for the backward: two layers, or two forwards of the same size, derive with the last one's weights."""

import torch
from torch import nn


class Softmax(torch.autograd.Function):
    kept = {}

    @staticmethod
    def forward(ctx, scores):
        out = torch.softmax(scores, dim=-1)
        Softmax.kept[tuple(scores.shape)] = out.detach().clone()
        ctx.key = tuple(scores.shape)
        return out

    @staticmethod
    def backward(ctx, grad):
        w = Softmax.kept[ctx.key]
        return w * (grad - (grad * w).sum(-1, keepdim=True))


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_embd = config.n_embd
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
        att = Softmax.apply(att)
        y = (att @ v).transpose(1, 2).reshape(b, t, self.n_embd)
        return self.c_proj(y)
