import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.d_out = d_out
        self.W_q = nn.Parameter(torch.randn(d_in, d_out) * 0.5)
        self.W_k = nn.Parameter(torch.randn(d_in, d_out) * 0.5)
        self.W_v = nn.Parameter(torch.randn(d_in, d_out) * 0.5)

    def forward(self, x):
        # x: (batch, tokens, d_in)
        q = x @ self.W_q
        k = x @ self.W_k
        v = x @ self.W_v
        scores = q @ k.transpose(1, 2) / self.d_out ** 0.5
        weights = torch.softmax(scores, dim=1)
        return weights @ v


sa = SelfAttention(3, 4)
print(sa(torch.rand(2, 5, 3)))
