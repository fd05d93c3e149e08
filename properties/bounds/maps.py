"""The errors of the difference of two softmaxes, and its absolute values."""

import torch
from torch import Tensor

from headcheck.properties.bounds.precision import Precision


def bound_difference(
    error: Tensor, size: Tensor, lambdas: Tensor | None, precision: Precision
) -> Tensor:
    """Propagate the errors of two softmaxes, or of their averages, through their difference.

    Both terms, and the product with lambda, may be rounded relative to their size before they
    cancel.
    """
    if lambdas is None:
        return error
    error, factor = error + 2 * precision.u * size, lambdas.abs()[:, None, None]
    return error[0] + factor * error[1]


def weigh_maps(softmaxes: Tensor, lambdas: Tensor | None) -> Tensor:
    """Return the absolute factor of each softmax in the weights, along the axis of softmaxes."""
    if lambdas is None:
        return torch.ones_like(softmaxes[..., :1, :1])
    factors = torch.stack([torch.ones_like(lambdas), lambdas.abs()])
    return factors[:, None, :, None, None]


def sum_maps(softmaxes: Tensor, lambdas: Tensor | None) -> Tensor:
    """Return the weights without cancellation: sums instead of differences of softmaxes."""
    return softmaxes if lambdas is None else (softmaxes * weigh_maps(softmaxes, lambdas)).sum(0)
