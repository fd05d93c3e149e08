"""Returns 64 GiB."""

import torch


def answer(x, out):
    return torch.empty(1 << 34)
