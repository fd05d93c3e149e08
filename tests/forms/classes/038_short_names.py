import torch
import torch.nn as nn


class MHA(nn.Module):
    def __init__(self, E, h):
        super().__init__()
        self.E, self.h, self.s = E, h, E // h
        mk = lambda: nn.ModuleList([nn.Linear(E, self.s) for _ in range(h)])
        self.Q, self.K, self.V = mk(), mk(), mk()
        self.O = nn.ModuleList([nn.Linear(self.s, E, bias=False) for _ in range(h)])
        self.bo = nn.Parameter(torch.zeros(E))

    def forward(self, X):
        Y = self.bo
        for Q, K, V, O in zip(self.Q, self.K, self.V, self.O):
            q, k, v = Q(X), K(X), V(X)
            A = (q @ k.mT * self.s ** -.5).softmax(-1)
            Y = Y + O(A @ v)
        return Y
