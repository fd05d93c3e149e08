"""Projects everything with the layers, then maps the attention of one query over the rows."""

import functools

import torch
from torch import nn


def attend(query, keys, values):
    scores = keys @ query / query.shape[0] ** 0.5
    return torch.exp(scores - scores.logsumexp(0)) @ values


class SelfAttention_v2(nn.Module):
    def __init__(self, d_in, d_out, qkv_bias=False):
        super().__init__()
        linear = functools.partial(nn.Linear, d_in, d_out, bias=qkv_bias)
        self.W_query = linear()
        self.W_key = linear()
        self.W_value = linear()

    def forward(self, x):
        over_queries = torch.vmap(attend, in_dims=(0, None, None))
        return over_queries(self.W_query(x), self.W_key(x), self.W_value(x))
