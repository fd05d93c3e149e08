import torch
from torch import nn
import torch.nn.functional as F


class AutoregressiveAttention(nn.Module):
    """Causal attention used in the language model below."""

    def __init__(self, hidden_size, heads, drop=0.1):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(hidden_size, hidden_size)
        self.to_k = nn.Linear(hidden_size, hidden_size)
        self.to_v = nn.Linear(hidden_size, hidden_size)
        self.to_o = nn.Linear(hidden_size, hidden_size)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = [f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.to_q, self.to_k, self.to_v)]
        att = q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5
        mask = torch.triu(torch.ones(t, t, device=x.device))
        att = att.masked_fill(mask == 0, float("-inf"))
        att = self.drop(F.softmax(att, dim=-1))
        return self.to_o((att @ v).transpose(1, 2).reshape(b, t, c))
