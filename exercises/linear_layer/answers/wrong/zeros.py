"""Returns zeros of the right shape. (named: zeros_returned)"""

import torch


def linear(x, weight, bias):
    return torch.zeros(*x.shape[:-1], weight.shape[0], dtype=x.dtype, device=x.device)
