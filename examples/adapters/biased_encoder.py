"""Attention with a mask that is added to the scores, and weights that are returned if asked for."""

import torch
import torch.nn.functional as F
from torch import nn


class BiasedEncoder(nn.Module):
    def __init__(self, width, heads, dropout=0.0, bias=True):
        super().__init__()
        self.heads, self.rate = heads, dropout
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width)

    def forward(self, x, bias=None, need_weights=True):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        rate = self.rate if self.training else 0.0
        if need_weights:
            scores = q @ k.mT / q.shape[-1] ** 0.5
            weights = share(scores if bias is None else scores + bias)
            mixed = F.dropout(weights, rate) @ v
        else:
            weights = None
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=rate)
        return self.out(mixed.transpose(1, 2).flatten(2)), weights


def share(scores):
    """Return a softmax, and zeros where all scores are minus infinity."""
    sees = (scores > float("-inf")).any(-1, keepdim=True)
    return torch.softmax(scores.masked_fill(~sees, 0.0), dim=-1) * sees
