import torch
import torch.nn as nn


class ManualAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.dim, self.num_heads = dim, num_heads
        for n in ("q", "k", "v", "o"):
            self.register_parameter("w_" + n, nn.Parameter(torch.randn(dim, dim) / dim ** 0.5))
            self.register_parameter("b_" + n, nn.Parameter(torch.randn(dim) * 0.1))

    def forward(self, x):
        B, T, C = x.shape
        H, D = self.num_heads, self.dim // self.num_heads
        q = (x @ self.w_q + self.b_q).view(B, T, H, D).transpose(1, 2)
        k = (x @ self.w_k + self.b_k).view(B, T, H, D).transpose(1, 2)
        v = (x @ self.w_v).view(B, T, H, D).transpose(1, 2)
        att = torch.softmax(q @ k.transpose(2, 3) / D ** 0.5, dim=3)
        out = (att @ v).transpose(1, 2).reshape(B, T, C)
        return out @ self.w_o + self.b_o
