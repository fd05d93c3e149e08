"""Flattens to a matrix, does product and addition in one call, restores the shape."""

import torch


def linear(x, weight, bias):
    d_out, d_in = weight.shape
    flat = torch.addmm(bias, x.reshape(-1, d_in), weight.t())
    return flat.reshape(*x.shape[:-1], d_out)
