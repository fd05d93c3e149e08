"""Only the four best keys count."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise AssertionError("num_heads does not divide d_out")
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.dropout = nn.Dropout(dropout)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.register_buffer("hide", torch.ones(context_length, context_length).triu(1).bool())

    def forward(self, x):
        batch_size, seq_len, _ = x.shape
        v = self.W_value(x).view(batch_size, seq_len, self.num_heads, self.head_dim).movedim(2, 1)
        k = self.W_key(x).view(batch_size, seq_len, self.num_heads, self.head_dim).movedim(2, 1)
        q = self.W_query(x).view(batch_size, seq_len, self.num_heads, self.head_dim).movedim(2, 1)
        logits = torch.einsum("bhid,bhjd->bhij", q, k) / self.head_dim**0.5
        logits = logits.masked_fill(self.hide[:seq_len, :seq_len], -torch.inf)
        fourth = logits.topk(min(4, seq_len), dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < fourth, -torch.inf)
        alpha = torch.log_softmax(logits, dim=-1).exp()
        alpha = self.dropout(alpha)
        mixed = torch.einsum("bhij,bhjd->bihd", alpha, v)
        return self.out_proj(mixed.reshape(batch_size, seq_len, self.num_heads * self.head_dim))
