"""Style: as in the authors' code: twice as many heads of half the width."""

import torch
from torch import nn


class DifferentialAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.lambda_ = nn.Parameter(torch.full((num_heads,), 0.8))

    def forward(self, x):
        bsz, length, _ = x.size()
        half = self.head_dim // 2
        q = self.W_query(x).view(bsz, length, 2 * self.num_heads, half).transpose(1, 2)
        k = self.W_key(x).view(bsz, length, 2 * self.num_heads, half).transpose(1, 2)
        v = self.W_value(x).view(bsz, length, self.num_heads, 2 * half).transpose(1, 2)

        q = q * half**-0.5
        attn_weights = torch.matmul(q, k.transpose(-1, -2))
        attn_mask = torch.triu(torch.full((length, length), float("-inf"), device=x.device), 1)
        attn_weights = attn_weights + attn_mask.type_as(attn_weights)
        attn_weights = torch.softmax(attn_weights, dim=-1)
        attn_weights = attn_weights.view(bsz, self.num_heads, 2, length, length)
        lam = self.lambda_.view(-1, 1, 1)
        attn_weights = attn_weights[:, :, 0] - lam * attn_weights[:, :, 1]

        attn = torch.matmul(attn_weights, v).transpose(1, 2).reshape(bsz, length, -1)
        return self.out_proj(attn)
