"""Leaves the weight as it lies: vectors become columns on its right."""

import torch


class Affine:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def __call__(self, x):
        column = torch.unsqueeze(x, -1)
        return torch.squeeze(self.weight @ column, -1) + self.bias


def linear(x, weight, bias):
    return Affine(weight, bias)(x)
