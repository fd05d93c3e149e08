import torch
import torch.nn as nn


class ScaledAttention(nn.Module):
    """Returns attention weights first, then the attended values."""

    def __init__(self, size):
        super().__init__()
        self.size = size
        self.to_query = nn.Linear(size, size)
        self.to_key = nn.Linear(size, size)
        self.to_value = nn.Linear(size, size)
        self.softmax = nn.Softmax(dim=2)

    def forward(self, query, key, value, mask=None):
        q = self.to_query(query)
        k = self.to_key(key)
        v = self.to_value(value)
        u = torch.bmm(q, k.transpose(1, 2))
        u = u / self.size ** 0.5
        if mask is not None:
            u = u.masked_fill(mask, -float('inf'))
        attn = self.softmax(u)
        output = torch.bmm(attn, v)
        return attn, output
