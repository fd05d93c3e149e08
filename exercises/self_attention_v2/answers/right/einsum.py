"""einsum for scores and context, with the scale put on the queries."""

import torch
from torch import nn


class SelfAttention_v2(nn.Module):
    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__()
        self.scale = d_out**-0.5
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        queries = self.W_query(x) * self.scale
        attention = torch.einsum("qd,kd->qk", queries, self.W_key(x)).softmax(dim=-1)
        return torch.einsum("qk,kd->qd", attention, self.W_value(x))
