"""Returns a sparse tensor of a gigantic shape with one number in it."""

import torch


def answer(x, out):
    return torch.sparse_coo_tensor([[0], [0], [0]], [1.0], (1 << 20, 1 << 20, 1 << 20))
