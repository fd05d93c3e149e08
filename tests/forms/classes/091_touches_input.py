import torch
import torch.nn as nn


class ScaledInputAttention(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.d_head = d_model // heads
        self.wq = nn.Linear(d_model, d_model, bias=False)
        self.wk = nn.Linear(d_model, d_model, bias=False)
        self.wv = nn.Linear(d_model, d_model, bias=False)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, query, key, value):
        b, n, d = query.shape
        m = key.shape[1]
        k = self.wk(key).view(b, m, self.heads, self.d_head).transpose(1, 2)
        v = self.wv(value).view(b, m, self.heads, self.d_head).transpose(1, 2)
        query /= self.d_head ** 0.5
        q = self.wq(query).view(b, n, self.heads, self.d_head).transpose(1, 2)
        attn = torch.softmax(q @ k.transpose(-1, -2), dim=-1)
        return self.wo((attn @ v).transpose(1, 2).reshape(b, n, d))
