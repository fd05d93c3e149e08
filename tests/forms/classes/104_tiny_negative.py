import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, d_k, d_v, n_heads):
        super().__init__()
        self.h, self.d_k, self.d_v = n_heads, d_k, d_v
        self.W_q = nn.Linear(d_model, d_k * n_heads)
        self.W_k = nn.Linear(d_model, d_k * n_heads)
        self.W_v = nn.Linear(d_model, d_v * n_heads)
        self.W_o = nn.Linear(d_v * n_heads, d_model)

    def forward(self, q, k, v, mask=None):
        b = q.size(0)
        Q = self.W_q(q).view(b, -1, self.h, self.d_k).transpose(1, 2)
        K = self.W_k(k).view(b, -1, self.h, self.d_k).transpose(1, 2)
        V = self.W_v(v).view(b, -1, self.h, self.d_v).transpose(1, 2)
        scores = torch.matmul(Q, K.transpose(2, 3)) / self.d_k ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e-9)
        attn = F.softmax(scores, dim=-1)
        out = torch.matmul(attn, V).transpose(1, 2).reshape(b, -1, self.h * self.d_v)
        return self.W_o(out), attn
