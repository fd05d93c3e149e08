"""The rounding errors of a layer, and the absolute gradients of its weight and bias."""

import math

import torch
from torch import Tensor

from headcheck.properties.bounds.precision import Precision


def bound_linear_error(
    x: Tensor, weight: Tensor | None, result: Tensor, precision: Precision
) -> Tensor:
    """Bound the rounding error of x Wᵀ + b.

    Kernels start the sum with the bias, so every partial sum may be as large as the result.
    """
    if weight is None:
        return torch.zeros_like(result)
    terms = x.abs() @ weight.abs().mT + result.abs()
    accumulated = 2 * math.sqrt(x.shape[-1]) * precision.ua * terms
    return accumulated + 2 * precision.u * result.abs() + x.shape[-1] * precision.underflow


Scales = dict[str, Tensor]
"""scales of the gradients of x and of parameters"""


def bound_layer(name: str, grad: Tensor, x: Tensor) -> Scales:
    """Return a layer's gradients of weight and bias, given its input and its output's gradient."""
    rows = grad.flatten(0, -2)
    return {f"W_{name}": rows.mT @ x.flatten(0, -2), f"b_{name}": rows.sum(0)}
