"""The softmax runs over the queries, down the columns. (named: softmax_over_queries)"""

import torch
from torch import nn


class SelfAttention_v1(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query = nn.Parameter(torch.rand(d_in, d_out))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out))

    def forward(self, x):
        keys = x @ self.W_key
        queries = x @ self.W_query
        values = x @ self.W_value
        attn_scores = queries @ keys.T / keys.shape[-1] ** 0.5
        attn_weights = torch.softmax(attn_scores, dim=0)
        context_vec = attn_weights @ values
        return context_vec
