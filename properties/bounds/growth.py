"""How many roundings of its terms an element of a gradient may be off by."""

import math

from headcheck.properties.bounds.features import count_feature_roundings
from headcheck.properties.bounds.parts import BOUNDS, GrowthOf
from headcheck.properties.terms.case import Case
from headcheck.reference import PLAIN, MultiHeadResult, Parameters, Variant


def compute_growth(case: Case, exact: MultiHeadResult, variant: Variant = PLAIN) -> float:
    """Return an element's error, in units of the rounding error of the sum of its terms."""
    visible = exact.scores[exact.softmaxes > 0]
    largest = float(visible.detach().abs().max()) if visible.numel() else 0.0
    # The rounding of exp and its argument (4S), and of products of this length.
    length = max(case.d_in, case.d_out, case.tokens)
    growth, of = 4 + 4 * largest + 2 * math.sqrt(length), GrowthOf(case, exact, variant, largest)
    if variant.features:
        growth = 4 + 2 * math.sqrt(length) + count_feature_roundings(exact, length)
    for bounds in BOUNDS:
        growth += bounds.grow(of)
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
