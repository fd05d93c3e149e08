"""Mistakes about which keys are hidden, and about the way of hiding them."""

import math
from collections.abc import Callable, Sequence

from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    Mistake,
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.pipeline import PipelineState
from headcheck.properties.mistakes.steps import scores

Divisor = Callable[[Tensor], Tensor]
"""returns the divisors of all rows, given their sums"""


def hidden_zeroed(s: PipelineState) -> Tensor:
    return s.weights if s.visible is None else s.weights * s.visible


def renormalised(change: Divisor = lambda sums: sums) -> Callable[..., Tensor]:
    """Divide the remaining weights of each row by a function of their sum."""

    def use(s: PipelineState) -> Tensor:
        if s.visible is None:
            return s.weights
        kept = hidden_zeroed(s)
        return kept / change(kept.sum(dim=-1, keepdim=True))

    return use


def plus(number: float) -> Divisor:
    return lambda sums: sums + number


def at_least(number: float) -> Divisor:
    return lambda sums: sums.clamp(min=number)


hidden_zeroed_and_renormalised = renormalised()


RENORMALISED = (
    hidden_zeroed_and_renormalised,
    lambda s: hidden_zeroed_and_renormalised(s).nan_to_num(),
    *(renormalised(plus(n)) for n in (1e-5, 1e-6, 1e-8, 1e-9, 1e-12)),
    *(renormalised(at_least(n)) for n in (1e-6, 1e-8, 1e-9, 1e-12)),
)
"""steps that divide the remaining weights by their sum, or by a variant of the sum that cannot be 0
"""

MASK: Sequence[Mistake] = (
    define_mistake(
        "no_mask",
        "Nothing is hidden: every token sees all the others.",
        "only fill:inf|\\d{4}",
    ).simulated_by(permit=scores.no_mask),
    *require(
        Capability.TAKES_MASK,
        define_mistake(
            "given_mask_ignored",
            "The mask that a call is given has no effect: only later tokens are hidden.",
            "unused:mask",
            needs=Capability.CAUSAL,
            unless=Capability.DOCUMENTS,
        ).simulated_by(permit=scores.future_beside_mask),
    ),
    define_mistake(
        "next_token_visible",
        "Every token sees the one after it: the mask begins one diagonal too late.",
        "triangle:tril diagonal=1$|triu diagonal=2$",
    ).simulated_by(permit=scores.diagonal_shifted(1)),
    define_mistake(
        "own_token_hidden",
        "The mask hides every token from itself, and everything from the first one, which then "
        "gets NaN or sees all of them: it begins one diagonal too early.",
        "triangle:tril diagonal=-1$|triu diagonal=0?$ | triangle | fill",
    ).simulated_by(
        {"permit": scores.diagonal_shifted(-1)},
        {"permit": scores.diagonal_shifted(-1), "hide": scores.lowered_by_infinity},
    ),
    define_rare_mistake(
        "padding_hides_queries", "A padding mask hides queries instead of keys."
    ).simulated_by(permit=scores.padding_transposed),
    define_mistake(
        "mask_transposed",
        "The mask is transposed: tokens see themselves and the future instead of the past.",
        unless=Capability.PADDING,
    ).simulated_by(permit=scores.mask_transposed),
    define_mistake(
        "mask_inverted",
        "The mask is inverted: it hides what should be visible and shows what should be hidden.",
    ).simulated_by(permit=scores.mask_inverted),
    define_mistake("mask_on_first_head", "Only the first head is masked.").simulated_by(
        permit=scores.mask_on_first(1)
    ),
    define_mistake(
        "mask_on_first_sequence", "Only the first sequence of the batch is masked."
    ).simulated_by(permit=scores.mask_on_first(0)),
    define_mistake(
        "causal_though_not_asked",
        "The future is hidden, which this exercise does not ask for.",
    ).simulated_by(
        {"permit": scores.future_too},
        {"permit": scores.future_in_a_square_mask},
        {"permit": scores.future_where_no_mask_is},
        {"hide": scores.lowered_besides(scores.future_beside_mask)},
    ),
    define_rare_mistake(
        "own_token_never_visible",
        "No token sees itself, even where the mask allows it.",
    ).simulated_by(
        {"permit": scores.without_own_token},
        {"hide": scores.lowered_besides(scores.without_own_token)},
    ),
    define_rare_mistake(
        "zero_tokens_hidden",
        "Tokens that happen to be all zeros are taken for padding, and hidden.",
    ).simulated_by(permit=scores.zero_tokens_hidden),
    define_rare_mistake(
        "window",
        "A token sees only a few earlier tokens; it should see all of them.",
        "compare:\\d",
        needs=Capability.ANY_DISTANCE,
    ).simulated_by(
        *({"permit": scores.window_of(width)} for width in (2, 3, 4, 5, 6, 7, 8, 9, 16))
    ),
    define_mistake(
        "filled_with_zero",
        "Hidden scores become 0 instead of −∞: e⁰ is 1, so they keep weight.",
        "fill:^-?0",
    ).simulated_by(hide=scores.filled_with(0.0)),
    define_mistake(
        "filled_with_small_number",
        "Hidden scores become a number that is not negative enough instead of −∞, "
        "so they keep weight.",
        "fill:^-?[\\d.]+(e-?\\d+)?$",
    ).simulated_by(
        *(
            {"hide": fill(number)}
            for number in (-1.0, -10.0, -5.0)
            for fill in (scores.filled_with, scores.filled_before_scaling)
        )
    ),
    define_rare_mistake(
        "filled_with_moderate_number",
        "Hidden scores become a fixed number instead of −∞, and very negative scores are below it.",
        "fill:^-?[\\d.]+(e-?\\d+)?$ | fill",
    ).simulated_by(
        *(
            {"hide": fill(number)}
            for number in (-20.0, -30.0, -50.0, -100.0, -1e3, -1e4)
            for fill in (scores.filled_with, scores.filled_before_scaling)
        )
    ),
    define_mistake(
        "filled_with_tiny_number",
        "Hidden scores become almost 0 instead of −∞: 1e-9 is a tiny number, and not a very "
        "negative one.",
        "fill:e-\\d+$",
    ).simulated_by(
        *(
            {"hide": fill(number)}
            for number in (-1e-9, 1e-9, -1e-10, 1e-10)
            for fill in (scores.filled_with, scores.filled_before_scaling)
        )
    ),
    define_mistake(
        "hidden_favoured",
        "Hidden scores become large instead of −∞: all weight goes where none should. "
        "The sign of the fill is wrong.",
        "fill:^(inf|[\\d.]+e\\d+)$",
    ).simulated_by({"hide": scores.filled_with(1e9)}, {"hide": scores.raised_by(1e9)}),
    define_mistake(
        "filled_with_plus_infinity",
        "Hidden scores become +∞, or NaN, instead of −∞, and the softmax gives NaN.",
        "fill:^(float\\(.\\+?inf|.*\\binf)",
        needs=Capability.SOFTMAX,
    ).simulated_by(hide=scores.filled_with(math.inf)),
    define_mistake(
        "mask_added_as_ones",
        "A mask of ones and zeros is added to the scores: it hides nothing.",
    ).simulated_by(
        {"hide": lambda s: s.scores if s.visible is None else s.scores + s.visible},
        {"hide": scores.raised_by(1.0)},
    ),
    define_rare_mistake(
        "hidden_lowered_too_little",
        "Hidden scores are lowered by too small a number: a large one still gets weight.",
        "fill | times",
    ).simulated_by(*({"hide": scores.raised_by(number)} for number in (-10.0, -100.0, -1e3, -1e4))),
    define_rare_mistake(
        "zero_scores_hidden",
        "Scores that happen to be 0 are taken for hidden ones: "
        "look at the mask, not at the numbers.",
    ).simulated_by(hide=scores.zero_scores_hidden),
    define_mistake(
        "masked_after_softmax",
        "The mask takes effect only after the softmax: the remaining weights do not sum to one.",
        needs=Capability.SOFTMAX,
    ).simulated_by(hide=scores.unmasked, use=hidden_zeroed),
    define_rare_mistake(
        "renormalised_after_softmax",
        "The mask is applied after the softmax, and each row is divided by its remaining sum: "
        "if the hidden tokens had nearly all the weight, too little is left, or nothing.",
        "sum | softmax",
        needs=Capability.SOFTMAX,
        unless=Capability.SINKS,
    ).simulated_by(*({"hide": scores.unmasked, "use": use} for use in RENORMALISED)),
)
