import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, hidden_dim, num_heads, dropout=0.2):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.in_proj = nn.Linear(hidden_dim, hidden_dim * 3)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        bs, length, _ = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        shape = (bs, length, self.num_heads, self.hidden_dim // self.num_heads)
        q, k, v = q.view(shape), k.view(shape), v.view(shape)
        logits = torch.einsum("bqhd,bkhd->bhqk", q, k) / shape[-1] ** 0.5
        probs = F.dropout(F.softmax(logits, dim=-1), p=self.dropout)
        ctx = torch.einsum("bhqk,bkhd->bqhd", probs, v)
        return self.out_proj(ctx.reshape(bs, length, self.hidden_dim))
