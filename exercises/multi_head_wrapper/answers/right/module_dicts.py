"""The heads are nn.ModuleDicts that only hold layers; the wrapper does what a head does."""

import torch
import torch.nn.functional as F
from torch import nn


class MultiHeadAttentionWrapper(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        names = ["W_query", "W_key", "W_value"]
        self.heads = nn.ModuleList(
            nn.ModuleDict({name: nn.Linear(d_in, d_out, bias=qkv_bias) for name in names})
            for _ in range(num_heads)
        )
        self.p = dropout

    def attend(self, head, x):
        q, k, v = (head[name](x) for name in ("W_query", "W_key", "W_value"))
        position = torch.arange(x.shape[1], device=x.device)
        scores = torch.matmul(q / q.shape[-1] ** 0.5, k.mT)
        scores = torch.where(position[:, None] < position, float("-inf"), scores)
        weights = F.dropout(F.softmax(scores, -1), self.p, self.training)
        return torch.matmul(weights, v)

    def forward(self, x):
        return torch.cat([self.attend(head, x) for head in self.heads], -1)
