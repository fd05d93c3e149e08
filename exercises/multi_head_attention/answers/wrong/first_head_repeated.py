"""The weights of the first head serve all heads."""

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    """Causal self-attention with `num_heads` heads."""

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError("the heads need equal widths")
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        batch, tokens, _ = x.size()
        position = torch.arange(tokens, device=x.device)
        hidden = position[None, :] > position[:, None]

        queries = self.W_query(x).view(batch, tokens, self.num_heads, self.head_dim)
        keys = self.W_key(x).view(batch, tokens, self.num_heads, self.head_dim)
        values = self.W_value(x).view(batch, tokens, self.num_heads, self.head_dim)

        queries, keys, values = (y.transpose(1, 2) for y in (queries, keys, values))
        att = torch.matmul(queries, keys.transpose(2, 3)) / self.head_dim**0.5
        att = torch.where(hidden, -torch.inf, att)
        attn = torch.nn.functional.softmax(att, dim=3)
        attn = attn[:, :1].expand_as(attn)
        attn = self.dropout(attn)
        z = torch.matmul(attn, values)
        z = z.transpose(1, 2).flatten(start_dim=2)
        return self.out_proj(z)
