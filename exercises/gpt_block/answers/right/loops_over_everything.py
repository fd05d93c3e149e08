"""In plain loops: over sequences, heads, queries and keys."""

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
        shortcut = x
        x = self.norm1(x)
        x = self.attend(x)
        x = x + shortcut

        shortcut = x
        x = self.norm2(x)
        x = self.feed_forward(x)
        return x + shortcut

    def attend(self, x):
        b, t, _ = x.shape
        q = self.W_query(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.W_key(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.W_value(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        batch = []
        for n in range(b):
            heads = []
            for h in range(self.num_heads):
                rows = []
                for i in range(t):
                    scores = [q[n, h, i] @ k[n, h, j] / self.head_dim**0.5 for j in range(i + 1)]
                    weights = torch.softmax(torch.stack(scores), dim=0)
                    row = 0
                    for j in range(i + 1):
                        row = row + weights[j] * v[n, h, j]
                    rows.append(row)
                heads.append(torch.stack(rows))
            batch.append(torch.cat(heads, dim=-1))
        context = torch.stack(batch)
        return self.out_proj(context)

    def feed_forward(self, x):
        return self.linear2(nn.functional.gelu(self.linear1(x)))
