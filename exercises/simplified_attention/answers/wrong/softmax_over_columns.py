"""Normalises each column of the scores, so the weights of a token do not sum to one. (named: softmax_over_queries)"""

import torch


def simplified_attention(x):
    scores = torch.matmul(x, x.transpose(0, 1))
    weights = torch.softmax(scores, dim=0)
    return torch.matmul(weights, x)
