"""Style: the loop only stacks the weights; all heads are then computed at once."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Weights(nn.Module):
    """Only holds the parameters of a head; MultiHead does the work."""

    def __init__(self, rows: int, cols: int) -> None:
        super().__init__()
        for name in ("query", "key", "value"):
            weight = torch.empty(rows, cols)
            nn.init.xavier_uniform_(weight)
            self.register_parameter(f"{name}_W", nn.Parameter(weight))
            self.register_parameter(f"{name}_b", nn.Parameter(torch.zeros(rows)))


class MultiHead(nn.Module):
    def __init__(self, block_size: int, n_head: int, n_embd: int) -> None:
        super().__init__()
        self.head_size = n_embd // n_head
        self.heads = nn.ModuleList()
        for _ in range(n_head):
            self.heads.append(Weights(self.head_size, n_embd))
        self.proj_W = nn.Parameter(torch.eye(n_embd))
        self.proj_b = nn.Parameter(torch.zeros(n_embd))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.shape[1]
        future = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
        query, key, value = (self.project(x, name) for name in ("query", "key", "value"))
        scores = torch.einsum("bhtd,bhsd->bhts", query, key) / math.sqrt(self.head_size)
        scores = scores.masked_fill(future, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        context = torch.einsum("bhts,bhsd->bthd", weights, value)
        return F.linear(context.flatten(2), self.proj_W, self.proj_b)

    def project(self, x: Tensor, name: str) -> Tensor:
        weight = torch.stack([getattr(head, f"{name}_W") for head in self.heads])
        bias = torch.stack([getattr(head, f"{name}_b") for head in self.heads])
        return torch.einsum("btc,hdc->bhtd", x, weight) + bias[:, None, :]
