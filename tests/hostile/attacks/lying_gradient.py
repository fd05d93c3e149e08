"""Has a backward of its own that gives made-up gradients."""

import torch


class Forged(torch.autograd.Function):
    @staticmethod
    def forward(context, out):
        return out.clone()

    @staticmethod
    def backward(context, gradient):
        return torch.ones_like(gradient)


def answer(x, out):
    return Forged.apply(out)
