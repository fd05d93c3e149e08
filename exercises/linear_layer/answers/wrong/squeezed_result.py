"""Squeezes the result, which drops every dimension of size one."""

import torch


def linear(x, weight, bias):
    y = torch.einsum("...i,oi->...o", x, weight) + bias
    return y.squeeze()
