"""A stack of matrices, one for each head, multiplied by einsum."""

import torch
from torch import nn


class EinsumAttention(nn.Module):
    def __init__(self, d_model, n_heads, d_head):
        super().__init__()
        self.d_head = d_head
        self.W_Q = nn.Parameter(torch.randn(n_heads, d_model, d_head) * 0.02)
        self.W_K = nn.Parameter(torch.randn(n_heads, d_model, d_head) * 0.02)
        self.W_V = nn.Parameter(torch.randn(n_heads, d_model, d_head) * 0.02)
        self.W_O = nn.Parameter(torch.randn(n_heads, d_head, d_model) * 0.02)

    def forward(self, x):
        q = torch.einsum("bsd,hde->bshe", x, self.W_Q)
        k = torch.einsum("bsd,hde->bshe", x, self.W_K)
        v = torch.einsum("bsd,hde->bshe", x, self.W_V)
        scores = torch.einsum("bqhe,bkhe->bhqk", q, k) / self.d_head**0.5
        z = torch.einsum("bhqk,bkhe->bqhe", scores.softmax(dim=-1), v)
        return torch.einsum("bqhe,hed->bqd", z, self.W_O)
