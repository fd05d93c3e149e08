"""Returns 60 MiB more than was asked for, in every call."""

import torch


def answer(x, out):
    return out, torch.zeros(15 << 20)
