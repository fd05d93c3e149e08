"""Bias and mask go into torch's fused attention together."""

import torch
import torch.nn.functional as F
from torch import nn


class WindowAttention(nn.Module):
    def __init__(self, dim, window_size, num_heads):
        super().__init__()
        self.num_heads, (h, w) = num_heads, window_size
        self.relative_position_bias_table = nn.Parameter(
            torch.zeros((2 * h - 1) * (2 * w - 1), num_heads)
        )
        y, x = torch.arange(h * w) // w, torch.arange(h * w) % w
        down, right = y[:, None] - y + h - 1, x[:, None] - x + w - 1
        self.register_buffer("index", down * (2 * w - 1) + right, persistent=False)
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        bias = self.relative_position_bias_table[self.index].permute(2, 0, 1)[None]
        if mask is not None:
            bias = (bias + mask[:, None]).repeat(b // mask.shape[0], 1, 1, 1)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        return self.proj(out.transpose(1, 2).flatten(2))
