"""The scores are clamped to [-5, 5]."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError("heads must divide the output width")
        self.num_heads = num_heads
        self.head_size = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        ones = torch.ones(context_length, context_length, dtype=torch.bool)
        self.register_buffer("upper", torch.triu(ones, diagonal=1))

    def forward(self, x):
        B, T, _ = x.shape
        qkv = torch.stack([self.W_query(x), self.W_key(x), self.W_value(x)], dim=2)
        qkv = qkv.view(B, T, 3, self.num_heads, self.head_size)
        qkv = qkv.permute(2, 0, 3, 1, 4)  # 3, B, heads, T, head_size
        query, key, value = qkv.unbind(0)

        logits = (query @ key.transpose(-1, -2)) / (self.head_size**0.5)
        logits = logits.clamp(-5, 5)
        logits[:, :, self.upper[:T, :T]] = -torch.inf
        probs = self.dropout(logits.softmax(-1))
        out = (probs @ value).permute(0, 2, 1, 3).flatten(2)
        return self.out_proj(out)
