"""Mistakes about how scores become weights."""

import math

import torch

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue import mask as late_masks
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.steps import scores

DROWNING = tuple(1.5 * 2.0**exponent for exponent in range(16, 52))
"""large numbers, one between every two powers of two from 2¹⁶ on: the larger the number, the more
digits a score loses when it is added"""

SOFTMAX = require(
    Capability.SOFTMAX,
    define_mistake(
        "softmax_over_queries",
        "The softmax runs down the columns of the scores; it should run along each row.",
        "softmax:dim=(-2|1|2|0)$",
    ).simulated_by(
        {"normalise": scores.softmax_over(-2)},
        {
            "hide": scores.unmasked,
            "normalise": scores.softmax_over(-2),
            "use": late_masks.hidden_zeroed_and_renormalised,
        },
    ),
    define_mistake(
        "softmax_over_heads",
        "The softmax runs over the heads; it should run over the keys.",
        "softmax:dim=(1|-3)$",
        needs=Capability.HEADS,
    ).simulated_by(normalise=scores.softmax_over(1)),
    define_mistake(
        "softmax_over_batch",
        "The softmax runs over the batch; it should run over the keys.",
        "softmax:dim=0$",
    ).simulated_by(normalise=scores.softmax_over(0)),
    define_mistake(
        "softmax_over_everything",
        "One softmax normalises all scores of a head together; each query needs one of its own.",
    ).simulated_by(
        {"normalise": scores.softmax_over(-2, -1)},
        {"normalise": scores.softmax_over(-3, -2, -1)},
        {"normalise": scores.softmax_over(0, 1, 2, 3)},
    ),
    define_rare_mistake(
        "scores_drowned",
        "A large number is added to the visible scores, or subtracted from them: float32 then "
        "keeps no digits of their differences, and all weights become equal.",
        "times:\\de\\d | fill:\\de\\d | add:\\de\\d | add",
    ).simulated_by(*({"hide": scores.lowered_beside_mask(number)} for number in DROWNING)),
    define_mistake("double_softmax", "The softmax is applied twice.").simulated_by(
        {"normalise": lambda s: torch.softmax(torch.softmax(s.masked_scores, dim=-1), dim=-1)},
        {"normalise": scores.softmax_masked_softmax},
        {"hide": scores.unmasked, "normalise": scores.softmax_masked_softmax},
    ),
    define_mistake(
        "no_softmax", "The scores themselves serve as weights: the softmax is missing."
    ).simulated_by(
        {"normalise": scores.scores_themselves, "hide": scores.filled_with(0.0)},
        {"normalise": scores.scores_themselves},
    ),
    define_rare_mistake(
        "log_softmax",
        "The logarithms of the weights are used as weights: log_softmax instead of softmax.",
        "softmax:log",
    ).simulated_by(normalise=scores.logarithms),
    define_mistake(
        "normalised_by_sum",
        "The scores are divided by their sum; a softmax takes their exponentials first.",
    ).simulated_by(
        {"normalise": scores.divided_by_sum},
        {"normalise": scores.relu_divided_by_sum()},
        {"normalise": scores.relu_divided_by_sum(1e-12)},
    ),
    define_mistake(
        "softmax_not_normalised",
        "The exponentials of the scores are never divided by their sum.",
    ).simulated_by(normalise=lambda s: s.masked_scores.exp()),
    define_rare_mistake(
        "sigmoid",
        "Each weight is the sigmoid of its own score; a softmax makes them share one unit.",
    ).simulated_by(normalise=lambda s: torch.sigmoid(s.masked_scores)),
    define_rare_mistake(
        "all_keys_alike",
        "All visible tokens get the same weight: queries and keys are not used.",
    ).simulated_by(
        normalise=lambda s: torch.softmax(
            s.masked_scores.masked_fill(s.masked_scores != -math.inf, 0.0), dim=-1
        )
    ),
    define_rare_mistake(
        "hardmax", "All weight goes to the best key instead of being shared by a softmax."
    ).simulated_by(normalise=scores.hardmax),
    define_rare_mistake(
        "number_in_denominator",
        "A number is added to the sum of the exponentials: the weights sum to less than one.",
        unless=Capability.SINKS,
    ).simulated_by(
        *(
            {"normalise": scores.denominator_plus(extra, shifted)}
            for extra in (1.0, 1e-3, 1e-5, 1e-6, 1e-8, 1e-9)
            for shifted in (False, True)
        )
    ),
    define_rare_mistake(
        "softmax_overflows",
        "The exponentials are taken without subtracting each row's largest score first: "
        "large scores overflow.",
        "exp | softmax",
        unless=Capability.SINKS,
    ).simulated_by(
        {"normalise": scores.unshifted},
        {"hide": scores.unmasked, "normalise": scores.unshifted_and_masked},
    ),
    define_rare_mistake(
        "one_maximum_for_all",
        "One maximum is subtracted from all rows; rows far below it underflow. "
        "Each row needs its own.",
        "max | exp",
        unless=Capability.SINKS,
    ).simulated_by(
        {"normalise": scores.shifted_by_one_maximum(-2, -1)},
        {"normalise": scores.shifted_by_one_maximum(1, 2, 3)},
        {"normalise": scores.shifted_by_one_maximum(0, 1, 2, 3)},
    ),
    define_rare_mistake(
        "sums_without_keepdim",
        "The row sums lost their dimension (keepdim): column j is divided by the sum of row j.",
    ).simulated_by(hide=scores.unmasked, normalise=scores.divided_by_column_sums),
)
