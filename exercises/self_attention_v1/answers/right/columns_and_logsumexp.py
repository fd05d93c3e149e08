"""Works with keys as rows and queries as columns, and normalises by log-sum-exp."""

import torch
from torch import nn


class SelfAttention_v1(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query = nn.Parameter(torch.rand(d_in, d_out))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out))

    def forward(self, x):
        tokens = x.T
        queries = self.W_query.T @ tokens
        keys = self.W_key.T @ tokens
        scores = keys.T @ queries / keys.shape[0] ** 0.5  # one column for each query
        log_weights = scores - scores.logsumexp(dim=0)
        return log_weights.exp().T @ x @ self.W_value
