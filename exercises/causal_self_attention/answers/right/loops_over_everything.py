"""In plain loops: over sequences, heads, queries and keys."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.n_embd = config.n_embd
        self.n_head = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # B, nh, T, hs
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)

        batch = []
        for n in range(B):
            heads = []
            for h in range(self.n_head):
                rows = []
                for i in range(T):
                    scores = [q[n, h, i] @ k[n, h, j] / math.sqrt(k.size(-1)) for j in range(i + 1)]
                    weights = F.softmax(torch.stack(scores), dim=0)
                    row = 0
                    for j in range(i + 1):
                        row = row + weights[j] * v[n, h, j]
                    rows.append(row)
                heads.append(torch.stack(rows))
            batch.append(torch.cat(heads, dim=-1))
        return self.c_proj(torch.stack(batch))
