import torch
from torch import nn


class SentenceSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, max_len):
        super().__init__()
        self.n_heads, self.max_len, self.d_model = n_heads, max_len, d_model
        self.dh = d_model // n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)
        self.register_buffer("mask", torch.ones(max_len, max_len).tril().bool())

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.reshape(-1, self.max_len, self.n_heads, self.dh).transpose(1, 2)
        k = k.reshape(-1, self.max_len, self.n_heads, self.dh).transpose(1, 2)
        v = v.reshape(-1, self.max_len, self.n_heads, self.dh).transpose(1, 2)
        s = q @ k.transpose(-1, -2) / self.dh ** 0.5
        s = s.masked_fill(~self.mask, float("-inf"))
        y = (s.softmax(-1) @ v).transpose(1, 2)
        return self.out(y.reshape(-1, self.max_len, self.d_model))
