import torch
import torch.nn as nn


class MSA(nn.Module):
    def __init__(self, embed_dim, num_heads, attn_p=0., proj_p=0.):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.scale = self.head_dim ** -0.5
        self.qkv = nn.Linear(embed_dim, embed_dim * 3)
        self.attn_drop = nn.Dropout(attn_p)
        self.proj = nn.Linear(embed_dim, embed_dim)
        self.proj_drop = nn.Dropout(proj_p)

    def forward(self, x):
        n_samples, n_tokens, dim = x.shape
        qkv = self.qkv(x).reshape(n_samples, n_tokens, 3, self.num_heads, self.head_dim)
        qkv = qkv.permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        dp = (q @ k.transpose(-2, -1)) * self.scale
        attn = self.attn_drop(dp.softmax(dim=-2))
        weighted_avg = (attn @ v).transpose(1, 2).flatten(2)
        return self.proj_drop(self.proj(weighted_avg))


class MLP(nn.Module):
    def __init__(self, i, h, o):
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(i, h), nn.GELU(), nn.Linear(h, o)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))
