"""The products of features go through a softmax. (named: softmax_of_products)"""

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

    def forward(self, x, state=None):
        q, k, v = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        if state is not None:
            k, v = torch.cat([state[0], k], dim=2), torch.cat([state[1], v], dim=2)
        tokens, known = x.shape[1], k.shape[2]
        past = torch.ones(tokens, known, dtype=torch.bool, device=x.device).tril(known - tokens)
        products = (nn.functional.elu(q) + 1) @ (nn.functional.elu(k) + 1).transpose(2, 3)
        weights = products.masked_fill(~past, float("-inf")).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.out_proj(context), (k, v)
