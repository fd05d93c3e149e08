"""The errors of what parts do to scores after these are scaled."""

from collections.abc import Callable

from torch import Tensor

from headcheck.properties.bounds.precision import Precision
from headcheck.reference import MultiHeadResult, Variant

Adjustment = Callable[[MultiHeadResult, Tensor, Variant, Precision], Tensor | float]
"""Bounds the error of one step. The tensor is a bound of the scores by absolute values."""


def bound_relative(
    exact: MultiHeadResult, absolute: Tensor, variant: Variant, precision: Precision
) -> Tensor | float:
    """Bound the error of adding a number of the table: it is exact, and the sum is rounded."""
    if exact.bias is None:
        return 0.0
    return precision.u * (2 * exact.bias.abs() + absolute)


def bound_alibi(
    exact: MultiHeadResult, absolute: Tensor, variant: Variant, precision: Precision
) -> Tensor | float:
    """Bound the error of adding distances.

    An implementation may add the key's position instead of minus the distance. A softmax gives the
    same weights then, but this bias is as large for near keys as for far keys, so in 16 bits it
    needs wider numbers.
    """
    if not variant.alibi:
        return 0.0
    bias = variant.find_bias(exact.scores).abs()
    farthest = bias.amax((-2, -1), keepdim=True)
    return precision.u * (4 * bias + absolute) + 4 * precision.ua * farthest


def bound_softcap(
    exact: MultiHeadResult, absolute: Tensor, variant: Variant, precision: Precision
) -> Tensor | float:
    """Bound the error of limiting scores by a tanh."""
    if not variant.softcap:
        return 0.0
    return precision.u * (3 * absolute + 3 * exact.scores.abs())


ADJUSTMENTS: tuple[Adjustment, ...] = (bound_relative, bound_alibi, bound_softcap)
"""the adjustments of scores, in the order in which the equation makes them"""


def bound_adjustments(
    exact: MultiHeadResult, absolute: Tensor, variant: Variant, precision: Precision
) -> Tensor | float:
    """Bound the rounding error of all adjustments of scores."""
    error: Tensor | float = 0.0
    for bound in ADJUSTMENTS:
        error = error + bound(exact, absolute, variant, precision)
    return error
