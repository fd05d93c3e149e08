"""Style: no mask at all; each query sees only the slice of keys before it."""

import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.n_embd = config.n_embd
        self.c_attn = nn.Linear(self.n_embd, 3 * self.n_embd)
        self.c_proj = nn.Linear(self.n_embd, self.n_embd)

    def forward(self, x):
        head_size = self.n_embd // self.n_head
        q, k, v = torch.tensor_split(self.c_attn(x), 3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.n_head, head_size)) for part in (q, k, v))

        rows = []
        for i in range(x.shape[1]):
            past_keys = k[:, : i + 1]  # batch, i + 1, heads, head_size
            past_values = v[:, : i + 1]
            scores = (q[:, i : i + 1] * past_keys).sum(dim=-1) / head_size**0.5
            weights = scores.softmax(dim=1)  # batch, i + 1, heads
            rows.append((weights.unsqueeze(-1) * past_values).sum(dim=1))
        mixed = torch.stack(rows, dim=1)
        return self.c_proj(mixed.flatten(2))
