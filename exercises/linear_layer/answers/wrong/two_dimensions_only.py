"""Written for a matrix: a single vector or a batch of lists raises."""

import torch


def linear(x, weight, bias):
    return torch.addmm(bias, x, weight.T)
