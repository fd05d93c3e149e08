import torch
from torch import nn


class GroupedAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.width = n_heads, n_kv_heads, d_model // n_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, n_kv_heads * self.width, bias=False)
        self.v_proj = nn.Linear(d_model, n_kv_heads * self.width, bias=False)
        self.o_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q = self.q_proj(x).view(b, t, self.n_heads, self.width).transpose(1, 2)
        k = self.k_proj(x).view(b, t, self.n_kv_heads, self.width).transpose(1, 2)
        v = self.v_proj(x).view(b, t, self.n_kv_heads, self.width).transpose(1, 2)
        group = self.n_heads // self.n_kv_heads
        k = k.repeat_interleave(group, dim=1)
        v = v.repeat_interleave(group, dim=1)
        scores = q @ k.transpose(-2, -1) / self.width**0.5
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
        return self.o_proj((weights @ v).transpose(1, 2).reshape(b, t, d))
