"""Style: one query after the other; fully blocked rows become zeros."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model=512, num_heads=8):
        super().__init__()
        self.num_heads = num_heads
        for name in ("W_q", "W_k", "W_v", "W_o"):
            self.add_module(name, nn.Linear(d_model, d_model))

    def forward(self, x, mask=None):
        batch, tokens, width = x.shape
        d_k = width // self.num_heads
        q, k, v = (
            torch.stack(layer(x).split(d_k, dim=-1), dim=1)
            for layer in (self.W_q, self.W_k, self.W_v)
        )
        if mask is None:
            mask = torch.ones(1, 1, device=x.device)
        mask = torch.broadcast_to(mask, (batch, self.num_heads, tokens, tokens))

        rows = []
        for i in range(tokens):
            scores = (k @ q[:, :, i, :, None]).squeeze(-1) * d_k**-0.5  # batch, heads, keys
            scores = scores.masked_fill(mask[:, :, i] == 0, -torch.inf)
            rows.append(scores.softmax(-1).nan_to_num(0.0))
        weights = torch.stack(rows, dim=2)

        heads = (weights @ v).unbind(dim=1)
        return self.W_o(torch.cat(heads, dim=-1)), weights
