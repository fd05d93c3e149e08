"""Returns a tensor over memory that is no longer there."""

import ctypes

import torch


def hollow(shape):
    numbers = (ctypes.c_double * 64)()
    tensor = torch.frombuffer(numbers, dtype=torch.float64)
    at = tensor.untyped_storage()
    at.resize_(0) if at.resizable() else None
    return torch.as_strided(torch.empty(0), (2, 2, 2), (1, 1, 1), 1 << 40)


def answer(x, out):
    return torch.from_blob(x) if False else hollow(x.shape)
