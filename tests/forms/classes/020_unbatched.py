import torch
from torch import nn


class SelfAttention2D(nn.Module):
    """Attention for a single sentence: input of shape (tokens, features)."""

    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.queries = nn.Linear(features, features, bias=False)
        self.keys = nn.Linear(features, features, bias=False)
        self.values = nn.Linear(features, features, bias=False)
        self.unify = nn.Linear(features, features)

    def forward(self, x):
        t, f = x.shape
        s = f // self.heads
        q = self.queries(x).view(t, self.heads, s).transpose(0, 1)   # (h, t, s)
        k = self.keys(x).view(t, self.heads, s).transpose(0, 1)
        v = self.values(x).view(t, self.heads, s).transpose(0, 1)
        a = torch.bmm(q, k.transpose(1, 2)) / (s ** 0.5)
        a = torch.softmax(a, dim=2)
        y = torch.bmm(a, v)
        return self.unify(y.transpose(0, 1).reshape(t, f))


# %%
sentence = torch.randn(7, 12)
layer = SelfAttention2D(12, 3)
layer(sentence).shape
