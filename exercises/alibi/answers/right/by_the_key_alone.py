"""Style: scores rise with the position of the key, which is the same in a softmax (BLOOM)."""

import torch
from torch import nn


class AlibiAttention(nn.Module):
    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.W_query(x)), self.split(self.W_key(x)), self.split(self.W_value(x))
        wide = torch.promote_types(x.dtype, torch.float32)
        head = torch.arange(1, self.num_heads + 1, dtype=wide, device=x.device)
        slopes = torch.pow(2.0, -8.0 * head / self.num_heads)
        position = torch.arange(x.shape[1], dtype=wide, device=x.device)
        rising = slopes[:, None, None] * position
        # The last keys are raised by so much that few bits are left for their scores.
        scores = (q @ k.mT / self.head_dim**0.5).to(wide) + rising
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1).to(x.dtype)
        return self.out_proj((self.dropout(weights) @ v).transpose(1, 2).flatten(2))
