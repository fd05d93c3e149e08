import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model=512, num_heads=8):
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, d_model)
        self.o = nn.Linear(d_model, d_model)

    def forward(self, x):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, self.num_heads, self.d_head).permute(0, 2, 1, 3)
        k = self.k(x).view(b, t, self.num_heads, self.d_head).permute(0, 2, 1, 3)
        v = self.v(x).view(b, t, self.num_heads, self.d_head).permute(0, 2, 1, 3)
        k = k.contiguous().view(b, self.num_heads, self.d_head, t)
        energy = torch.matmul(q, k) / self.d_head ** 0.5
        attention = torch.softmax(energy, dim=-1)
        out = torch.matmul(attention, v).permute(0, 2, 1, 3).contiguous().view(b, t, self.d_model)
        return self.o(out)
