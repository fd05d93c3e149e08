"""There is one more layer, and nobody uses it."""

import torch
from torch import nn


def softmax(dots):
    shifted = dots - dots.max(dim=-1, keepdim=True).values
    powers = torch.exp(shifted)
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
        self.W_context = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("causal", torch.ones(context_length, context_length).triu(1) > 0)

    def forward(self, x):
        batch_size, seq_len, _ = x.shape

        def to_heads(y):
            return y.view(batch_size, seq_len, self.num_heads, self.d_head).transpose(1, 2)

        xq = to_heads(self.W_query(x))
        xk = to_heads(self.W_key(x))
        xv = to_heads(self.W_value(x))

        dots = torch.matmul(xq, xk.transpose(-2, -1)) * (self.d_head**-0.5)
        dots.masked_fill_(self.causal[:seq_len, :seq_len], float("-inf"))
        weights = self.dropout(softmax(dots))
        out = torch.matmul(weights, xv).transpose(1, 2)
        return self.out_proj(out.reshape(batch_size, seq_len, self.d_out))
