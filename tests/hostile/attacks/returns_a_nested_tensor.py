"""Returns a nested tensor, which has no shape."""

import torch


def answer(x, out):
    return torch.nested.nested_tensor([part for part in out])
