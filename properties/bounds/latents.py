"""The errors of keys and values that are made of latents."""

import math

from torch import Tensor

from headcheck.properties.bounds.layers import bound_linear_error
from headcheck.properties.bounds.precision import Precision
from headcheck.reference import Parameters, linear


def bound_read_error(
    x: Tensor, weight: Tensor, result: Tensor, parameters: Parameters, precision: Precision
) -> Tensor:
    """Bound the rounding error of keys or values, which are made of tokens or of their latents.

    An implementation may multiply queries with the layer of keys first, and averages of latents
    with the layer of values last. Then the rounding errors of scores and averages grow with the
    latents, even if these cancel in the layers.
    """
    if parameters.W_down is None:
        return bound_linear_error(x, weight, result, precision)
    latent = linear(x, parameters.W_down)
    sums = 2 * math.sqrt(x.shape[-2]) * precision.ua
    error = bound_linear_error(x, parameters.W_down, latent, precision)
    error = error + (2 * precision.u + sums) * latent.abs()
    return error @ weight.abs().mT + bound_linear_error(latent, weight, result, precision)
