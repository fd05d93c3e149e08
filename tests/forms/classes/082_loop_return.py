import torch
import torch.nn as nn


class MultiHead(nn.Module):
    def __init__(self, d_in, d_head, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_head
        self.queries = nn.ModuleList([nn.Linear(d_in, d_head, bias=False) for _ in range(n_heads)])
        self.keys = nn.ModuleList([nn.Linear(d_in, d_head, bias=False) for _ in range(n_heads)])
        self.values = nn.ModuleList([nn.Linear(d_in, d_head, bias=False) for _ in range(n_heads)])

    def one_head(self, x, i):
        q, k, v = self.queries[i](x), self.keys[i](x), self.values[i](x)
        s = q @ k.transpose(-1, -2) / self.d_head ** 0.5
        n = x.size(-2)
        s = s.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))
        return s.softmax(-1) @ v

    def forward(self, x):
        outs = []
        for i in range(self.n_heads):
            outs.append(self.one_head(x, 0))
        return torch.cat(outs, dim=-1)
