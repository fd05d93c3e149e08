import torch
import torch.nn as nn


class BaddbmmAttention(nn.Module):
    def __init__(self, width, n_heads, max_len=128):
        super().__init__()
        self.n_heads, self.d = n_heads, width // n_heads
        self.in_proj = nn.Linear(width, width * 3)
        self.out_proj = nn.Linear(width, width)
        m = torch.zeros(max_len, max_len)
        m.masked_fill_(torch.ones(max_len, max_len).triu(1).bool(), float("-inf"))
        self.register_buffer("causal_bias", m, persistent=False)

    def to_heads(self, t):
        b, n, _ = t.shape
        t = t.reshape(b, n, self.n_heads, self.d).permute(0, 2, 1, 3)
        return t.reshape(b * self.n_heads, n, self.d)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.in_proj(x).tensor_split(3, dim=-1)
        q, k, v = self.to_heads(q), self.to_heads(k), self.to_heads(v)
        bias = self.causal_bias[:n, :n].expand(b * self.n_heads, n, n)
        att = torch.baddbmm(bias, q, k.transpose(1, 2), beta=1.0, alpha=self.d ** -0.5)
        att = att.softmax(dim=-1)
        y = torch.bmm(att, v)
        y = y.reshape(b, self.n_heads, n, self.d).permute(0, 2, 1, 3).reshape(b, n, w)
        return self.out_proj(y)
