"""Makes a new nn.Linear with weights of its own and ignores the given ones."""

from torch import nn


def linear(x, weight, bias):
    d_out, d_in = weight.shape
    layer = nn.Linear(d_in, d_out).to(x)
    return layer(x)
