"""Style: each head is an nn.ParameterDict; log_softmax, then exp."""

import torch
from torch import nn


class MultiHead(nn.Module):
    def __init__(self, block_size, n_head, n_embd):
        super().__init__()
        size = n_embd // n_head
        self.heads = nn.ModuleList(self.make_head(size, n_embd) for _ in range(n_head))
        self.proj_W = nn.Parameter(torch.randn(n_embd, n_embd) / n_embd**0.5)
        self.proj_b = nn.Parameter(torch.zeros(n_embd))

    @staticmethod
    def make_head(size, width):
        parts = {}
        for name in ["query", "key", "value"]:
            parts[name + "_W"] = torch.randn(size, width) / width**0.5
            parts[name + "_b"] = torch.zeros(size)
        return nn.ParameterDict(parts)

    def attend(self, head, x):
        q = torch.matmul(x, head["query_W"].T) + head["query_b"]
        k = torch.matmul(x, head["key_W"].T) + head["key_b"]
        v = torch.matmul(x, head["value_W"].T) + head["value_b"]
        position = torch.arange(x.shape[1], device=x.device)
        scores = torch.matmul(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
        scores = torch.where(position[:, None] >= position, scores, float("-inf"))
        return torch.matmul(scores.log_softmax(-1).exp(), v)

    def forward(self, x):
        together = torch.cat([self.attend(head, x) for head in self.heads], dim=2)
        return torch.matmul(together, self.proj_W.T) + self.proj_b
