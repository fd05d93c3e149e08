"""Style: a loop over heads, whose parts of the output layer are added up."""

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
        q, k, v = self.W_query(n), self.W_key(n), self.W_value(n)
        t, d = x.shape[1], self.head_dim
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        h = x + self.out_proj.bias
        for start in range(0, x.shape[-1], d):
            own = slice(start, start + d)
            scores = q[..., own] @ k[..., own].mT / d**0.5
            weights = scores.masked_fill(future, float("-inf")).softmax(-1)
            h = h + weights @ v[..., own] @ self.out_proj.weight[:, own].mT
        return h + self.linear2(nn.functional.gelu(self.linear1(self.norm2(h))))
