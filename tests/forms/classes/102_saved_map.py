import torch
import torch.nn as nn


class VisualisedAttention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)
        self.attention_map = None

    def forward(self, x):
        b, n, d = x.shape
        hd = d // self.heads
        q = self.q_proj(x).view(b, n, self.heads, hd).transpose(1, 2)
        k = self.k_proj(x).view(b, n, self.heads, hd).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.heads, hd).transpose(1, 2)
        attn = torch.softmax(q @ k.transpose(-2, -1) / hd ** 0.5, dim=-1)
        self.attention_map = attn = attn.detach()
        return self.out_proj((attn @ v).transpose(1, 2).reshape(b, n, d))
