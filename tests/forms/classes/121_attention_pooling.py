import torch
import torch.nn as nn


class AttentionPooling(nn.Module):
    def __init__(self, hidden, att_dim=16):
        super().__init__()
        self.proj = nn.Linear(hidden, att_dim)
        self.context_vector = nn.Linear(att_dim, 1, bias=False)

    def forward(self, x, mask=None):
        u = torch.tanh(self.proj(x))
        s = self.context_vector(u).squeeze(-1)
        if mask is not None:
            s = s.masked_fill(mask == 0, float("-inf"))
        a = torch.softmax(s, dim=1)
        return torch.einsum("bt,bth->bh", a, x), a
