"""Style: heads folded into the batch, mask and scaled scores in one baddbmm."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """Multi-head attention with an optional mask."""

    def __init__(self, d_model=512, num_heads=8):
        super().__init__()
        self.n_heads = num_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def heads(self, layer, x):
        b, t, c = x.shape
        return (
            layer(x)
            .reshape(b, t, self.n_heads, c // self.n_heads)
            .permute(0, 2, 1, 3)
            .flatten(0, 1)
        )

    def forward(self, x, mask=None):
        q = self.heads(self.W_q, x)
        k = self.heads(self.W_k, x)
        v = self.heads(self.W_v, x)
        b, t, c = x.shape
        add = q.new_zeros(b, self.n_heads, t, t)
        if mask is not None:
            add = add.masked_fill(mask == 0, float("-inf"))
        alpha = (c // self.n_heads) ** -0.5
        scores = torch.baddbmm(add.flatten(0, 1), q, k.transpose(1, 2), alpha=alpha)
        weights = scores.softmax(dim=2)
        context = torch.bmm(weights, v).unflatten(0, (b, self.n_heads)).transpose(1, 2)
        return self.W_o(context.flatten(2)), weights.unflatten(0, (b, self.n_heads))
