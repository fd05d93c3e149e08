"""The softmax takes powers of two instead of e."""

import torch
from torch import nn


def softmax(attn_scores):
    shifted = attn_scores - attn_scores.max(dim=-1, keepdim=True).values
    powers = torch.exp2(shifted)
    return powers / powers.sum(dim=-1, keepdim=True)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "d_out % num_heads must be 0"
        self.d_out = d_out
        self.num_heads = num_heads
        self.d_head = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("causal", torch.ones(context_length, context_length).triu(1) > 0)

    def forward(self, x):
        batch_size, seq_len, _ = x.shape

        def to_heads(y):
            return y.view(batch_size, seq_len, self.num_heads, self.d_head).transpose(1, 2)

        queries = to_heads(self.W_query(x))
        keys = to_heads(self.W_key(x))
        v = to_heads(self.W_value(x))

        attn_scores = torch.matmul(queries, keys.transpose(-2, -1)) * (self.d_head**-0.5)
        attn_scores.masked_fill_(self.causal[:seq_len, :seq_len], float("-inf"))
        attn_weights = self.dropout(softmax(attn_scores))
        out = torch.matmul(attn_weights, v).transpose(1, 2)
        return self.out_proj(out.reshape(batch_size, seq_len, self.d_out))
