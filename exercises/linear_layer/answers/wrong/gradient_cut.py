"""Computes outside autograd: the numbers are right, but no gradient flows back. (named: output_detached)"""

import torch


def linear(x, weight, bias):
    with torch.no_grad():
        return x @ weight.T + bias
