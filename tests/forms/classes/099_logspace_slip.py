import torch
import torch.nn as nn
import torch.nn.functional as F


class LogAttention(nn.Module):
    def __init__(self, input_dim, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.qkv_proj = nn.Linear(input_dim, 3 * embed_dim)
        self.o_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x, mask=None):
        b, n, _ = x.size()
        qkv = self.qkv_proj(x).reshape(b, n, self.num_heads, 3 * self.head_dim).permute(0, 2, 1, 3)
        q, k, v = qkv.chunk(3, dim=-1)
        logits = q @ k.transpose(-2, -1) / self.head_dim ** 0.5
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -9e15)
        attention = F.log_softmax(logits, dim=-1)
        values = (attention @ v).permute(0, 2, 1, 3).reshape(b, n, self.embed_dim)
        return self.o_proj(values)
