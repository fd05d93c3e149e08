import numpy as np
import torch
import torch.nn as nn


class ScaledDotProductAttention(nn.Module):
    def __init__(self, d_k):
        super().__init__()
        self.d_k = d_k

    def forward(self, Q, K, V, attn_mask=None):
        scores = torch.matmul(Q, K.transpose(-1, -2)) / np.sqrt(self.d_k)
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask, -1e9)
        attn = nn.Softmax(dim=-1)(scores)
        return torch.matmul(attn, V), attn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, d_k, d_v, n_heads):
        super().__init__()
        self.d_k, self.d_v, self.n_heads = d_k, d_v, n_heads
        self.W_Q = nn.Linear(d_model, d_k * n_heads, bias=False)
        self.W_K = nn.Linear(d_model, d_k * n_heads, bias=False)
        self.W_V = nn.Linear(d_model, d_v * n_heads, bias=False)
        self.fc = nn.Linear(n_heads * d_v, d_model, bias=False)
        self.sdpa = ScaledDotProductAttention(d_k)

    def forward(self, input_Q, input_K, input_V, attn_mask=None):
        B = input_Q.size(0)
        Q = self.W_Q(input_Q).view(B, -1, self.n_heads, self.d_k).transpose(1, 2)
        K = self.W_K(input_K).view(B, -1, self.n_heads, self.d_k).transpose(1, 2)
        V = self.W_V(input_V).view(B, -1, self.n_heads, self.d_v).transpose(1, 2)
        if attn_mask is not None:
            attn_mask = attn_mask.unsqueeze(1).repeat(1, self.n_heads, 1, 1)
        context, attn = self.sdpa(Q, K, V, attn_mask)
        context = context.transpose(1, 2).reshape(B, -1, self.n_heads * self.d_v)
        return self.fc(context), attn
