"""The bias is never added."""

import torch


def linear(x, weight, bias):
    return torch.matmul(x, weight.t())
