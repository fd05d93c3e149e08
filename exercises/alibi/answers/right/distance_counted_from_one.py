"""Style: a token is at distance 1 from itself: a constant cancels in a softmax."""

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
        near = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        # How many of the tokens that a query sees come from a key on.
        distance = near.flip(-1).cumsum(-1).flip(-1)
        exponent = -8 / self.num_heads * torch.arange(1, self.num_heads + 1, device=x.device).to(wide)
        bias = -(exponent.exp2()[:, None, None] * distance).to(x.dtype)
        scores = (q @ k.mT).div(self.head_dim**0.5).add(bias)
        weights = self.dropout(scores.where(near, float("-inf")).softmax(-1))
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
