"""The heads have weights, but no biases. (named: bias_missing)"""

import torch
from torch import nn


def weight(*shape):
    return nn.Parameter(torch.randn(*shape) * 0.02)


class Head(nn.Module):
    def __init__(self, block_size, n_embd, head_size):
        super().__init__()
        self.query_W = weight(head_size, n_embd)
        self.key_W = weight(head_size, n_embd)
        self.value_W = weight(head_size, n_embd)
        self.scale = head_size**-0.5
        bias = torch.full((block_size, block_size), float("-inf")).triu(diagonal=1)
        self.register_buffer("bias", bias)

    def forward(self, x):
        t = x.size(1)
        q = x @ self.query_W.t()
        k = x @ self.key_W.t()
        v = x @ self.value_W.t()
        scores = q @ k.transpose(1, 2) * self.scale + self.bias[:t, :t]
        # softmax written out; without the maximum, exp would overflow
        e = (scores - scores.amax(dim=-1, keepdim=True)).exp()
        return (e / e.sum(dim=-1, keepdim=True)) @ v


class MultiHead(nn.Module):
    def __init__(self, block_size, n_head, n_embd):
        super().__init__()
        self.heads = nn.ModuleList(
            Head(block_size, n_embd, n_embd // n_head) for _ in range(n_head)
        )
        self.proj_W = weight(n_embd, n_embd)
        self.proj_b = weight(n_embd)

    def forward(self, x):
        outs = []
        for head in self.heads:
            outs.append(head(x))
        out = torch.cat(outs, -1)
        out = out @ self.proj_W.t() + self.proj_b
        return out
