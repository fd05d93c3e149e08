"""The heads' scores are summed, so all heads share one pattern. (named: one_head)"""

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
        B, T, _ = x.shape
        value = self.W_value(x).view(B, T, self.num_heads, self.head_dim).movedim(2, 1)
        key = self.W_key(x).view(B, T, self.num_heads, self.head_dim).movedim(2, 1)
        query = self.W_query(x).view(B, T, self.num_heads, self.head_dim).movedim(2, 1)
        logits = torch.einsum("bhid,bhjd->bij", query, key) / self.head_dim**0.5
        logits = logits.unsqueeze(1).expand(-1, self.num_heads, -1, -1)
        logits = logits.masked_fill(self.hide[:T, :T], -torch.inf)
        probs = torch.log_softmax(logits, dim=-1).exp()
        probs = self.dropout(probs)
        ctx = torch.einsum("bhij,bhjd->bihd", probs, value)
        return self.out_proj(ctx.reshape(B, T, self.num_heads * self.head_dim))
