import torch
import torch.nn as nn
import torch.nn.functional as F


class EncoderDecoderAttention(nn.Module):
    """queries from the decoder x, keys and values from the encoder y"""

    def __init__(self, d_model, n_heads, dropout=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.Wq = nn.Linear(d_model, d_model)
        self.Wk = nn.Linear(d_model, d_model)
        self.Wv = nn.Linear(d_model, d_model)
        self.Wo = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(dropout)

    def heads(self, t):
        return t.view(t.size(0), t.size(1), self.n_heads, -1).transpose(1, 2)

    def forward(self, x, y):
        q = self.heads(self.Wq(x))
        k = self.heads(self.Wk(x))
        v = self.heads(self.Wv(x))
        a = F.softmax(q @ k.transpose(2, 3) / q.size(-1) ** 0.5, dim=-1)
        o = (self.drop(a) @ v).transpose(1, 2).flatten(2)
        return self.Wo(o)
