"""The table is looked up by an index in a buffer; the windows of an image follow one another."""

import torch
from torch import nn


class WindowAttention(nn.Module):
    def __init__(self, dim, window_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        height, width = window_size
        table = torch.zeros((2 * height - 1) * (2 * width - 1), num_heads)
        self.relative_position_bias_table = nn.Parameter(table)
        coords = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        coords = torch.stack(coords).flatten(1)
        offsets = coords[:, :, None] - coords[:, None, :]
        offsets[0] += height - 1
        offsets[1] += width - 1
        offsets[0] *= 2 * width - 1
        self.register_buffer("index", offsets.sum(0))
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        batch, tokens, dim = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.num_heads, dim // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attn = q * self.scale @ k.transpose(-2, -1)
        bias = self.relative_position_bias_table[self.index.view(-1)].view(tokens, tokens, -1)
        attn = attn + bias.permute(2, 0, 1)
        if mask is not None:
            windows = mask.shape[0]
            attn = attn.view(batch // windows, windows, self.num_heads, tokens, tokens)
            attn = attn + mask[None, :, None]
            attn = attn.view(-1, self.num_heads, tokens, tokens)
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(batch, tokens, dim))
