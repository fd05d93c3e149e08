"""Loops over the outputs: each is a dot product with one row of the weight."""

import torch


def linear(x, weight, bias):
    outputs = []
    for row, offset in zip(weight, bias):
        outputs.append((x * row).sum(-1) + offset)
    return torch.stack(outputs, dim=-1)
