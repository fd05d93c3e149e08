"""einsum throughout; the parameters are created empty and filled afterwards."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class SelfAttention_v1(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query = nn.Parameter(torch.empty(d_in, d_out))
        self.W_key = nn.Parameter(torch.empty(d_in, d_out))
        self.W_value = nn.Parameter(torch.empty(d_in, d_out))
        for parameter in self.parameters():
            nn.init.uniform_(parameter)

    def forward(self, x):
        q = torch.einsum("ti,io->to", x, self.W_query)
        k = torch.einsum("ti,io->to", x, self.W_key)
        v = torch.einsum("ti,io->to", x, self.W_value)
        attention = F.softmax(torch.einsum("qo,ko->qk", q, k) / math.sqrt(q.size(1)), dim=1)
        return torch.einsum("qk,ko->qo", attention, v)
