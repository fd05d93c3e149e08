"""What each part adds to the errors of scores, to those of gradients, and to its own gradients.

Each function adds nothing to attention without its part. Steps before scores have their bounds in
`properties.bounds.roles`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from headcheck.properties.bounds.positions import bound_angles, count_factor_roundings
from headcheck.properties.bounds.precision import Precision
from headcheck.properties.terms.case import Case
from headcheck.reference import MultiHeadResult, Parameters, Variant


@dataclass(frozen=True, eq=False)
class GrowthOf:
    """What the growth of a gradient's error depends on."""

    case: Case
    exact: MultiHeadResult
    variant: Variant
    largest: float
    """the largest size of a visible score"""


@dataclass(frozen=True, eq=False)
class Entering:
    """Absolute gradients on their way from the weights to queries and keys."""

    p: Parameters
    """absolute values, as all tensors here"""
    variant: Variant
    softmaxes: Tensor
    into_weights: Tensor
    mean: Tensor
    """what enters a query's weights, averaged by these"""
    into_scores: Tensor
    """what enters the scores after they are scaled"""
    compared: tuple[Tensor, Tensor]
    """queries and keys"""


Adjustment = Callable[[MultiHeadResult, Tensor, Variant, Precision], Tensor | float]
"""Bounds the error of one step. The tensor is a bound of the scores by absolute values."""


def bound_relative(
    exact: MultiHeadResult, absolute: Tensor, variant: Variant, precision: Precision
) -> Tensor | float:
    """Bound the error of adding a number of the table: it is exact, and the sum is rounded.

    A number that is scaled with the scores is rounded once more.
    """
    if exact.bias is None:
        return 0.0
    return precision.u * (3 * exact.bias.abs() + absolute)


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


def _grow_by_rotations(of: GrowthOf) -> float:
    if not of.variant.rotary:
        return 0.0
    angles = bound_angles(of.exact.query, of.variant, 1.0)
    rounded = 6 + 2 * count_factor_roundings(of.variant)
    return (rounded + 2 * float(angles.max())) * (1 + of.largest)


def _grow_by_norms(of: GrowthOf) -> float:
    if not of.variant.norm:
        return 0.0
    count = of.case.d_out if of.variant.norm_over == "projection" else of.case.head_dim
    return (6 + 2 * math.sqrt(count)) * (1 + of.largest)


def _grow_by_head_norms(of: GrowthOf) -> float:
    if of.variant.head_norm is None:
        return 0.0
    whole = of.variant.head_norm.over == "projection"
    return 6 + 2 * math.sqrt(of.case.d_out if whole else of.case.head_dim)


def _grow_by_latents(of: GrowthOf) -> float:
    """Return the growth by one more layer."""
    return (4 + 2 * math.sqrt(of.case.d_latent)) * (1 + of.largest) if of.case.d_latent else 0.0


def _grow_by_gates(of: GrowthOf) -> float:
    return 0.0 if of.exact.gate is None else 4 * float(of.exact.gate.detach().abs().max())


def _grow_by_distances(of: GrowthOf) -> float:
    """Return the growth by what is added to scores, although these may cancel."""
    return 4.0 * of.case.tokens if of.variant.alibi else 0.0


def _grow_by_buckets(of: GrowthOf) -> float:
    """Return the growth by sums over all pairs of tokens."""
    pairs = of.case.batch * of.case.tokens**2
    return 2 * math.sqrt(pairs) if of.exact.bias is not None else 0.0


def _sum_over_buckets(entering: Entering) -> Mapping[str, Tensor]:
    """Sum what enters the scores over all pairs of tokens whose distance has the same bucket."""
    table, buckets, into = entering.p.W_rel, entering.variant.relative, entering.into_scores
    if table is None or buckets is None:
        return {}
    with torch.enable_grad():
        leaf = torch.zeros_like(table).requires_grad_()
        (summed,) = torch.autograd.grad((buckets.bias(leaf, into) * into).sum(), leaf)
    return {"W_rel": summed}


def _sum_second_maps(entering: Entering) -> Mapping[str, Tensor]:
    if entering.p.lambdas is None:
        return {}
    terms = entering.softmaxes[1] * entering.into_weights
    return {"lambdas": terms.transpose(0, 1).flatten(1).sum(1)}


def _sum_means(entering: Entering) -> Mapping[str, Tensor]:
    """Sum what enters sinks: a sink has no value, so its gradient is its weight times the mean.

    That weight may be computed as what the others lack to one: then it is rounded like one, however
    small.
    """
    if entering.p.sinks is None:
        return {}
    return {"sinks": entering.mean.transpose(0, 1).flatten(1).sum(1)}


ADJUSTMENTS: tuple[Adjustment, ...] = (bound_relative, bound_alibi, bound_softcap)
"""the errors of steps on scaled scores, in the order in which the equation takes them"""
GROWTHS: tuple[Callable[[GrowthOf], float], ...] = (
    _grow_by_rotations, _grow_by_norms, _grow_by_latents, _grow_by_head_norms, _grow_by_gates,
    _grow_by_buckets, _grow_by_distances,
)  # fmt: skip
"""the growth of a gradient's error, in roundings of its terms"""
OWN_SUMS = (_sum_over_buckets, _sum_second_maps, _sum_means)
"""the absolute gradients of parameters between weights and queries"""


def bound_adjustments(
    exact: MultiHeadResult, absolute: Tensor, variant: Variant, precision: Precision
) -> Tensor | float:
    """Bound the rounding error of all adjustments of scores."""
    error: Tensor | float = 0.0
    for adjust in ADJUSTMENTS:
        error = error + adjust(exact, absolute, variant, precision)
    return error
