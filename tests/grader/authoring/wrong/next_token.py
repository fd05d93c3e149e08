"""The triangle lets the next token be seen. (named: next_token_visible)"""

import torch
from torch import nn
from torch.nn import functional as F


class FusedAttention(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.heads, self.width = n_heads, dim // n_heads
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.dense = nn.Linear(dim, dim)

    def forward(self, hidden):
        batch, tokens, _ = hidden.shape
        fused = self.query_key_value(hidden).view(batch, tokens, self.heads, 3, self.width)
        q, k, v = fused.permute(3, 0, 2, 1, 4)
        scores = q @ k.mT * self.width**-0.5
        future = torch.ones(tokens, tokens, dtype=torch.bool, device=hidden.device).triu(2)
        weights = F.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        return self.dense((weights @ v).transpose(1, 2).flatten(2))
