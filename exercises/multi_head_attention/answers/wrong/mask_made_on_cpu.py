"""The mask is made in forward on the CPU, wherever x is."""

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

    def forward(self, x):
        batch, tokens, _ = x.shape
        values = self.W_value(x).view(batch, tokens, self.num_heads, self.head_dim).movedim(2, 1)
        keys = self.W_key(x).view(batch, tokens, self.num_heads, self.head_dim).movedim(2, 1)
        queries = self.W_query(x).view(batch, tokens, self.num_heads, self.head_dim).movedim(2, 1)
        logits = torch.einsum("bhid,bhjd->bhij", queries, keys) / self.head_dim**0.5
        logits = logits.masked_fill(
            torch.ones(tokens, tokens, device="cpu").triu(1).bool(), -torch.inf
        )
        attn_weights = torch.log_softmax(logits, dim=-1).exp()
        attn_weights = self.dropout(attn_weights)
        context = torch.einsum("bhij,bhjd->bihd", attn_weights, values)
        return self.out_proj(context.reshape(batch, tokens, self.num_heads * self.head_dim))
