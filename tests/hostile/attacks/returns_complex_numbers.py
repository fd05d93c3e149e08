"""Returns complex numbers with the answer as their real part."""

import torch


def answer(x, out):
    return out.to(torch.complex128)
