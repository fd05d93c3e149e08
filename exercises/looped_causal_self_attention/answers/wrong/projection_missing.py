"""proj_W and proj_b exist but are not used. (named: output_projection_missing)"""

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
        results = []
        for head in self.heads:
            query = F.linear(x, head.query_W, head.query_b)
            key = F.linear(x, head.key_W, head.key_b)
            value = F.linear(x, head.value_W, head.value_b)
            scores = torch.einsum("btd,bsd->bts", query, key) / math.sqrt(self.head_size)
            scores = scores.masked_fill(future, -1e9)
            weights = scores.softmax(dim=-1)
            results.append(torch.einsum("bts,bsd->btd", weights, value))
        return torch.cat(results, dim=-1)
