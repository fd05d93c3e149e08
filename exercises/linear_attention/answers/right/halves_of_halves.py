"""Style: a sequence is its first half, and its second with the state after that."""

import torch
from torch import nn


class LinearAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def attend(self, q, k, v, mixed, total):
        tokens = q.shape[2]
        if tokens == 1:
            mixed, total = mixed + k.mT @ v, total + k
            return q @ mixed / (q * total).sum(-1, keepdim=True), mixed, total
        first, second = (slice(0, tokens // 2), slice(tokens // 2, None))
        one, mixed, total = self.attend(q[:, :, first], k[:, :, first], v[:, :, first], mixed, total)
        two, mixed, total = self.attend(
            q[:, :, second], k[:, :, second], v[:, :, second], mixed, total
        )
        return torch.cat([one, two], dim=2), mixed, total

    def forward(self, x, state=None):
        q, k, v = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        q, k = nn.functional.elu(q) + 1, nn.functional.elu(k) + 1
        none = 0 * (k[:, :, :1].mT @ v[:, :, :1]), 0 * k[:, :, :1]
        context, *kept = self.attend(q, k, v, *(none if state is None else state))
        return self.out_proj(context.transpose(1, 2).flatten(2)), tuple(kept)
