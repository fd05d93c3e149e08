"""An nn.Linear without memory of its own, called with the weights that were handed in."""

from torch import nn
from torch.func import functional_call


def linear(x, weight, bias):
    d_out, d_in = weight.shape
    layer = nn.Linear(d_in, d_out, device="meta")
    return functional_call(layer, {"weight": weight, "bias": bias}, (x,))
