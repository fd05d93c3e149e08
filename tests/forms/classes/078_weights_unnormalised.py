import torch
import torch.nn as nn


class BMMAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.linear_q = nn.Linear(embed_dim, embed_dim)
        self.linear_k = nn.Linear(embed_dim, embed_dim)
        self.linear_v = nn.Linear(embed_dim, embed_dim)
        self.linear_o = nn.Linear(embed_dim, embed_dim)

    def fold(self, x):
        b, n, _ = x.shape
        x = x.view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
        return x.reshape(b * self.num_heads, n, self.head_dim)

    def forward(self, query, key, value):
        b, n, e = query.shape
        q = self.fold(self.linear_q(query))
        k = self.fold(self.linear_k(key))
        v = self.fold(self.linear_v(value))
        attn_weights = torch.bmm(q, k.transpose(1, 2)) / self.head_dim ** 0.5
        attn_output = torch.bmm(attn_weights, v)
        attn_output = attn_output.view(b, self.num_heads, n, self.head_dim)
        return self.linear_o(attn_output.transpose(1, 2).reshape(b, n, e))
