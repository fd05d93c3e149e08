"""Leaves it to torch.nn.functional."""

import torch.nn.functional as F


def linear(x, weight, bias):
    return F.linear(x, weight, bias)
