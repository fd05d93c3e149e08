"""Computes outside autograd: the numbers are right, but no gradient flows back."""

import torch


def linear(x, weight, bias):
    with torch.no_grad():
        return x @ weight.T + bias
