"""Style: one token after the other attends to those before it."""

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
        q, k, v = (
            layer(n).unflatten(-1, (self.num_heads, -1)) for layer in (self.W_query, self.W_key, self.W_value)
        )
        rows = []
        for i in range(x.shape[1]):
            scores = (q[:, i, None] * k[:, : i + 1]).sum(-1) / self.head_dim**0.5
            weights = scores.softmax(dim=1)
            rows.append((weights[..., None] * v[:, : i + 1]).sum(1).flatten(1))
        x = x + self.out_proj(torch.stack(rows, dim=1))
        return x + self.linear2(nn.functional.gelu(self.linear1(self.norm2(x))))
