"""A mask of two axes gets four in place: the caller's has them afterwards."""

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Attended(NamedTuple):
    output: Tensor
    weights: Tensor


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int = 512, num_heads: int = 8) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.scale = (d_model // num_heads) ** -0.5
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Attended:
        # b: batch, q and k: tokens, h: heads, d: width of a head
        query = self.W_q(x).unflatten(-1, (self.num_heads, -1))
        key = self.W_k(x).unflatten(-1, (self.num_heads, -1))
        value = self.W_v(x).unflatten(-1, (self.num_heads, -1))
        scores = torch.einsum("bqhd,bkhd->bhqk", query, key) * self.scale
        if mask is not None:
            while mask.dim() < 4:
                mask.unsqueeze_(0)
            blocked = mask == 0
            scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        context = torch.einsum("bhqk,bkhd->bqhd", weights, value)
        return Attended(self.W_o(context.flatten(-2)), weights)
