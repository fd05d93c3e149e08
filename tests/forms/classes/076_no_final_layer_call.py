import torch
from torch import nn
import torch.nn.functional as F


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, n_head, d_model, dropout=0.1):
        super().__init__()
        self.n_head = n_head
        self.d_head = d_model // n_head
        self.q_lin = nn.Linear(d_model, d_model)
        self.k_lin = nn.Linear(d_model, d_model)
        self.v_lin = nn.Linear(d_model, d_model)
        self.out_lin = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, x):
        b, t, d = x.shape

        def shape(z):
            return z.view(b, -1, self.n_head, self.d_head).transpose(1, 2)

        def unshape(z):
            return z.transpose(1, 2).contiguous().view(b, -1, self.n_head * self.d_head)

        q = shape(self.q_lin(x)) / self.d_head ** 0.5
        k = shape(self.k_lin(x))
        v = shape(self.v_lin(x))
        scores = q @ k.transpose(2, 3)
        mask = torch.ones(t, t, device=x.device).tril() == 0
        scores = scores.masked_fill(mask, float("-inf"))
        context = unshape(self.dropout(F.softmax(scores, dim=-1)) @ v)
        return context
