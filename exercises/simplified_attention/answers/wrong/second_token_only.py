"""Computes the context of the second token alone, as in the worked example."""

import torch


def simplified_attention(x):
    query = x[1]
    weights = torch.softmax(x @ query, dim=0)
    return weights @ x
