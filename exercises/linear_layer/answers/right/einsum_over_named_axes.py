"""Names the axes and lets einsum find the product."""

import torch


def linear(x, weight, bias):
    return torch.einsum("...i,oi->...o", x, weight) + bias
