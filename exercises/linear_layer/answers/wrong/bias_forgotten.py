"""The bias is never added. (named: bias_missing)"""

import torch


def linear(x, weight, bias):
    return torch.matmul(x, weight.t())
