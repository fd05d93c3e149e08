"""As in the authors' code: the heads of both maps side by side, and RMSNorm of each head."""

import math

import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x) * self.weight


class DiffAttention(nn.Module):
    lambda_init = 0.8

    def __init__(self, embed_dim, inner_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = inner_dim // num_heads // 2
        self.scaling = self.head_dim**-0.5
        self.q_proj = nn.Linear(embed_dim, inner_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, inner_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, inner_dim, bias=False)
        self.out_proj = nn.Linear(inner_dim, inner_dim, bias=False)
        self.lambda_full = nn.Parameter(torch.full((num_heads,), self.lambda_init))
        self.subln = RMSNorm(2 * self.head_dim, eps=1e-5)

    def forward(self, x):
        bsz, tgt_len, _ = x.size()
        q = self.q_proj(x).view(bsz, tgt_len, 2 * self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(bsz, tgt_len, 2 * self.num_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(bsz, tgt_len, self.num_heads, 2 * self.head_dim).transpose(1, 2)
        attn_weights = torch.matmul(q * self.scaling, k.transpose(-1, -2))
        mask = torch.full((tgt_len, tgt_len), -math.inf, device=x.device, dtype=x.dtype).triu(1)
        attn_weights = torch.softmax(attn_weights + mask, dim=-1)
        attn_weights = attn_weights.view(bsz, self.num_heads, 2, tgt_len, tgt_len)
        lambda_full = self.lambda_full.view(-1, 1, 1)
        attn_weights = attn_weights[:, :, 0] - lambda_full * attn_weights[:, :, 1]
        attn = torch.matmul(attn_weights, v)
        attn = self.subln(attn)
        attn = attn * (1 - self.lambda_init)
        attn = attn.transpose(1, 2).reshape(bsz, tgt_len, self.num_heads * 2 * self.head_dim)
        return self.out_proj(attn)
