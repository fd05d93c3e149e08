"""Causal attention within a window, whose cache forgets what no later token sees."""

import torch
from torch import nn


class WindowedDecoder(nn.Module):
    def __init__(self, width, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, cache=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)

        keys, tokens = k.shape[2], x.shape[1]
        places = torch.arange(keys, device=x.device)
        distance = places[keys - tokens :, None] - places
        visible = (distance >= 0) & (distance < self.window)
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~visible, float("-inf"))
        mixed = torch.softmax(scores, dim=-1) @ v

        first = max(0, keys - (self.window - 1))  # the next token sees itself and these
        kept = tuple(t[:, :, first:].clone() for t in (k, v))
        return self.out(mixed.transpose(1, 2).flatten(2)), kept
