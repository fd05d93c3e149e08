"""Style: GELU by the distribution function of the normal distribution."""

import torch
from torch import nn


class GPTBlock(nn.Module):
    def __init__(self, emb_dim, num_heads, qkv_bias=False):
        super().__init__()
        assert emb_dim % num_heads == 0, "num_heads must divide emb_dim"
        self.num_heads = num_heads
        self.head_dim = emb_dim // num_heads
        self.norm1 = nn.LayerNorm(emb_dim)
        self.W_query = nn.Linear(emb_dim, emb_dim, bias=qkv_bias)
        self.W_key = nn.Linear(emb_dim, emb_dim, bias=qkv_bias)
        self.W_value = nn.Linear(emb_dim, emb_dim, bias=qkv_bias)
        self.out_proj = nn.Linear(emb_dim, emb_dim)
        self.norm2 = nn.LayerNorm(emb_dim)
        self.linear1 = nn.Linear(emb_dim, 4 * emb_dim)
        self.linear2 = nn.Linear(4 * emb_dim, emb_dim)

    def forward(self, x):
        n = self.norm1(x)
        b, t, _ = n.shape
        q = self.W_query(n).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.W_key(n).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.W_value(n).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        scores = q @ k.transpose(2, 3) / self.head_dim**0.5
        mask = torch.ones(t, t, dtype=torch.bool, device=n.device).triu(1)
        weights = torch.softmax(scores.masked_fill(mask, float("-inf")), dim=-1)
        context = (weights @ v).transpose(1, 2).reshape(b, t, -1)
        h = x + self.out_proj(context)
        z = self.linear1(self.norm2(h))
        return torch.add(h, self.linear2(z * torch.special.ndtr(z)))
