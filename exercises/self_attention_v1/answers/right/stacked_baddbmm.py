"""Stacks the three weights for one product, and scales inside baddbmm."""

import torch
from torch import nn


class SelfAttention_v1(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (
            nn.Parameter(torch.rand(d_in, d_out)) for _ in range(3)
        )

    def forward(self, x):
        q, k, v = (x @ torch.stack([self.W_query, self.W_key, self.W_value])).unsqueeze(1)
        nothing = torch.zeros(1, 1, 1, dtype=x.dtype, device=x.device)
        scores = torch.baddbmm(nothing, q, k.transpose(1, 2), beta=0, alpha=k.shape[-1] ** -0.5)
        return torch.bmm(torch.softmax(scores, dim=-1), v).squeeze(0)
