"""Style: nothing but functions, on the weights of the layers."""

import torch
import torch.nn.functional as F
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
        width = (x.shape[-1],)
        n = F.layer_norm(x, width, self.norm1.weight, self.norm1.bias)
        q, k, v = (self.split(F.linear(n, w.weight, w.bias)) for w in (self.W_query, self.W_key, self.W_value))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * self.head_dim**-0.5
        t = x.shape[1]
        future = torch.full((t, t), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
        context = torch.einsum("bhqk,bhkd->bqhd", (scores + future).softmax(-1), v).flatten(2)
        h = x + F.linear(context, self.out_proj.weight, self.out_proj.bias)
        n = F.layer_norm(h, width, self.norm2.weight, self.norm2.bias)
        hidden = F.gelu(F.linear(n, self.linear1.weight, self.linear1.bias))
        return h + F.linear(hidden, self.linear2.weight, self.linear2.bias)

    def split(self, t):
        return t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
