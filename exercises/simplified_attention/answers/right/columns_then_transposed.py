"""The scores are symmetric, so columns will do, if the weights are then transposed."""

import torch


def simplified_attention(x):
    weights = torch.softmax(x @ x.T, dim=0)
    return weights.T @ x
