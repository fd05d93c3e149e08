"""Returns a tensor of 2 ** 42 numbers that takes four bytes."""

import torch


def answer(x, out):
    return torch.zeros(1).expand(1 << 42)
