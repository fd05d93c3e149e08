"""A softmax written out without subtracting the maximum: large scores overflow. (named: softmax_overflows)"""

import torch


def simplified_attention(x):
    e = torch.exp(x @ x.T)
    weights = e / e.sum(dim=-1, keepdim=True)
    return weights @ x
