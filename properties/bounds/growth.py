"""How many roundings of its terms an element of a gradient may be off by."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from headcheck.properties.bounds.features import count_feature_roundings
from headcheck.properties.bounds.positions import bound_angles, count_factor_roundings
from headcheck.properties.terms.case import Case
from headcheck.reference import PLAIN, MultiHeadResult, Parameters, Variant


@dataclass(frozen=True, eq=False)
class GrowthOf:
    """What the growth of a gradient's error depends on."""

    case: Case
    exact: MultiHeadResult
    variant: Variant
    largest: float
    """the largest size of a visible score"""


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


GROWTHS: tuple[Callable[[GrowthOf], float], ...] = (
    _grow_by_rotations,
    _grow_by_norms,
    _grow_by_latents,
    _grow_by_gates,
    _grow_by_distances,
    _grow_by_buckets,
)
"""what each part adds to the growth of errors"""


def compute_growth(case: Case, exact: MultiHeadResult, variant: Variant = PLAIN) -> float:
    """Return an element's error, in units of the rounding error of the sum of its terms."""
    visible = exact.scores[exact.softmaxes > 0]
    largest = float(visible.detach().abs().max()) if visible.numel() else 0.0
    # The rounding of exp and its argument (4S), and of products of this length.
    length = max(case.d_in, case.d_out, case.tokens)
    growth, of = 4 + 4 * largest + 2 * math.sqrt(length), GrowthOf(case, exact, variant, largest)
    if variant.features:
        growth = 4 + 2 * math.sqrt(length) + count_feature_roundings(exact, length)
    for grow in GROWTHS:
        growth += grow(of)
    return growth


def compute_block_growth(
    case: Case, attention: MultiHeadResult, variant: Variant, parameters: Parameters
) -> float:
    """Return the error of an element that goes through a block, in roundings of its terms.

    Norms sum up all numbers of a token. The errors of the first norm change scores. The second norm
    adds one more step, and so do the layers after it, of which the second sums over the hidden
    width.
    """
    assert parameters.W_1 is not None, "there is a feed-forward"
    visible = attention.scores[attention.softmaxes > 0].detach()
    norm = 6 + 2 * math.sqrt(case.d_in)
    hidden = 4 + 2 * math.sqrt(len(parameters.W_1))
    own = compute_growth(case, attention, variant)
    return own + norm * (1 + float(visible.abs().max())) + norm + 2 * hidden
