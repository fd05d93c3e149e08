import torch
import torch.nn as nn
import torch.nn.functional as F


class MaskedSelfAttention(nn.Module):
    def __init__(self, input_dim, num_heads=4, dropout=0.1):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = input_dim // num_heads
        self.query_proj = nn.Linear(input_dim, input_dim)
        self.key_proj = nn.Linear(input_dim, input_dim)
        self.value_proj = nn.Linear(input_dim, input_dim)
        self.out_proj = nn.Linear(input_dim, input_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        """mask: 1 for tokens, 0 for padding, shape (batch, seq)"""
        bs, sl, dim = x.shape
        q = self.query_proj(x).view(bs, sl, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.key_proj(x).view(bs, sl, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.value_proj(x).view(bs, sl, self.num_heads, self.head_dim).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) * self.head_dim ** -0.5
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, :, None] == 0, -1e9)
        out = torch.matmul(self.dropout(F.softmax(scores, dim=-1)), v)
        return self.out_proj(out.transpose(1, 2).reshape(bs, sl, dim))
