"""Appends a one to every vector and the bias to the weight, and is left with one product."""

import torch


def linear(x, weight, bias):
    ones = x.new_ones(*x.shape[:-1], 1)
    augmented = torch.cat([weight, bias.unsqueeze(1)], dim=1)
    return torch.cat([x, ones], dim=-1).matmul(augmented.transpose(0, 1))
