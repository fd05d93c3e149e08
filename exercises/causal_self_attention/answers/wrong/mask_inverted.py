"""The allowed places are masked instead of the forbidden ones. (named: mask_inverted)"""

import math

import torch
import torch.nn as nn


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.head_dim = config.n_embd // config.n_head
        self.c_attn = nn.Linear(config.n_embd, config.n_embd * 3)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.register_buffer(
            "hidden", torch.triu(torch.ones(config.block_size, config.block_size), 1).bool()
        )

    def fold_heads(self, t):
        # every head becomes one more element of the batch, so that bmm can be used
        b, n, _ = t.shape
        t = t.reshape(b, n, self.n_head, self.head_dim).permute(0, 2, 1, 3)
        return t.reshape(b * self.n_head, n, self.head_dim)

    def unfold_heads(self, t, b):
        n = t.shape[1]
        t = t.reshape(b, self.n_head, n, self.head_dim).permute(0, 2, 1, 3)
        return t.reshape(b, n, self.n_head * self.head_dim)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = [self.fold_heads(t) for t in self.c_attn(x).chunk(3, dim=-1)]
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.head_dim)
        scores = scores.masked_fill(~self.hidden[:n, :n], -1e9)
        # softmax by hand
        top = scores.max(dim=-1, keepdim=True).values
        e = torch.exp(scores - top)
        weights = e / e.sum(dim=-1, keepdim=True)
        out = self.unfold_heads(torch.bmm(weights, v), b)
        return self.c_proj(out)
