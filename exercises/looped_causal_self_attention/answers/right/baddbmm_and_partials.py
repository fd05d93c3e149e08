"""Style: projections as partials of F.linear; scale and mask enter the scores by baddbmm."""

from functools import partial, reduce

import torch
import torch.nn.functional as F
from torch import nn


class Head(nn.Module):
    def __init__(self, width: int, size: int):
        super().__init__()
        self.query_W, self.key_W, self.value_W = (
            nn.Parameter(nn.init.kaiming_uniform_(torch.empty(size, width))) for _ in range(3)
        )
        self.query_b, self.key_b, self.value_b = (
            nn.Parameter(torch.zeros(size)) for _ in range(3)
        )

    def projections(self):
        yield partial(F.linear, weight=self.query_W, bias=self.query_b)
        yield partial(F.linear, weight=self.key_W, bias=self.key_b)
        yield partial(F.linear, weight=self.value_W, bias=self.value_b)

    def forward(self, x, hidden):
        q, k, v = (project(x) for project in self.projections())
        scores = torch.baddbmm(hidden, q, k.mT, alpha=q.shape[-1] ** -0.5)
        return torch.bmm(F.softmax(scores, dim=-1), v)


class MultiHead(nn.Module):
    def __init__(self, block_size: int, n_head: int, n_embd: int):
        super().__init__()
        self.heads = nn.ModuleList()
        while len(self.heads) < n_head:
            self.heads.append(Head(n_embd, n_embd // n_head))
        self.proj_W = nn.Parameter(nn.init.orthogonal_(torch.empty(n_embd, n_embd)))
        self.proj_b = nn.Parameter(torch.zeros(n_embd))

    def forward(self, x):
        t = x.shape[1]
        hidden = torch.full((1, t, t), -torch.inf, dtype=x.dtype, device=x.device).triu(1)
        outputs = (head(x, hidden) for head in self.heads)
        side_by_side = reduce(lambda left, right: torch.cat((left, right), dim=-1), outputs)
        return F.linear(side_by_side, self.proj_W, self.proj_b)
