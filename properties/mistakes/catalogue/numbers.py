"""Mistakes that change each number by itself or by its position: rounding, limits, positions.

These mistakes are rare, and each has many variants, one for every likely constant. So they are
tried only if no other mistake explains an answer, and never in pairs.
"""

from collections.abc import Sequence

import torch

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import Mistake, define_rare_mistake, exclude
from headcheck.properties.mistakes.steps import numbers
from headcheck.properties.mistakes.steps.numbers import change_after_each, change_returned

LIMITS = (0.5, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 25, 30, 50, 80, 100)
THRESHOLDS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 5e-4, 1e-4, 1e-5, 1e-6)
DECIMALS = range(7)
HALVES = (torch.float16, torch.bfloat16)
DTYPES = (torch.float64, torch.float32)

LIMIT_UNASKED = exclude(
    Capability.SOFTCAP,
    define_rare_mistake(
        "scores_softcapped",
        "The scores are squeezed by a tanh before the softmax.",
        "relu:tanh | clamp | scores",
    ).simulated_by(
        *change_after_each("match", "scale", changes=[numbers.softcapped_at(c) for c in LIMITS])
    ),
)
"""mistakes that are possible only in exercises without a limit of scores"""

POSITIONS_UNASKED = exclude(
    Capability.POSITIONS,
    define_rare_mistake(
        "far_keys_penalised",
        "The distance of a key is subtracted from its score; the exercise has no positions.",
        "range | scores",
    ).simulated_by(
        *(
            {"scale": numbers.far_keys_penalised(slope, dtype)}
            for slope in (None, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0)
            for dtype in DTYPES
        )
    ),
    define_rare_mistake(
        "positions_added",
        "Sines and cosines of the positions are added to the input; the exercise has no positions.",
        "sine | range | projection",
    ).simulated_by(
        *(
            {"see": numbers.positions_added(dtype, divide, halves=halves, values=values)}
            for values in (True, False)
            for halves in (False, True)
            for dtype in DTYPES
            for divide in numbers.DIVISIONS[: 1 if dtype is torch.float64 else None]
        )
    ),
    define_rare_mistake(
        "numbers_of_positions_added",
        "The numbers of the positions are added to the input; the exercise has no positions.",
        "only add",
    ).simulated_by(
        {"see": numbers.numbers_of_positions_added(lambda position, length: position)},
        {"see": numbers.numbers_of_positions_added(lambda position, length: position + 1)},
        {"see": numbers.numbers_of_positions_added(lambda position, length: position / length)},
    ),
    define_rare_mistake(
        "rotated_by_position",
        "Queries and keys are rotated by their positions; the exercise has no positions.",
        "sine | range | projection",
    ).simulated_by(
        *(
            {"assign": numbers.rotated(dtype, interleaved=interleaved)}
            for interleaved in (False, True)
            for dtype in DTYPES
        )
    ),
)
"""mistakes only for exercises without positions, since elsewhere their sentences would not be true
"""

NUMBERS: Sequence[Mistake] = (
    define_rare_mistake(
        "weights_rounded",
        "The attention weights are rounded: after the softmax they should be used as they are.",
        "round | cast | softmax",
    ).simulated_by(
        *change_after_each("normalise", changes=[numbers.rounded_to(n) for n in DECIMALS]),
        *change_after_each("normalise", changes=[numbers.through(t) for t in HALVES]),
        *change_after_each("normalise", changes=[numbers.through(torch.float32)]),
    ),
    define_rare_mistake(
        "returned_weights_rounded",
        "The returned weights are rounded; they should be the weights that were used.",
        "last round | cast | return",
    ).simulated_by(*(change_returned(1, numbers.rounded_to(n)) for n in DECIMALS)),
    define_rare_mistake(
        "scores_rounded", "The scores are rounded before the softmax.", "round | cast | scores"
    ).simulated_by(
        *change_after_each("match", "scale", changes=[numbers.rounded_to(n) for n in DECIMALS]),
        *change_after_each("match", "scale", changes=[numbers.through(t) for t in HALVES]),
        *change_after_each("match", "scale", changes=[numbers.through(torch.float32)]),
    ),
    define_rare_mistake(
        "input_rounded", "The input is rounded before it is used.", "round | cast | projection"
    ).simulated_by(
        *change_after_each("see", changes=[numbers.rounded_to(n) for n in DECIMALS]),
        *change_after_each("see", changes=[numbers.through(t) for t in HALVES]),
        *change_after_each("see", changes=[numbers.through(torch.float32)]),
    ),
    define_rare_mistake(
        "projections_rounded",
        "Queries, keys and values are rounded before they are used.",
        "round | cast | projection",
    ).simulated_by(
        *change_after_each("project", changes=[numbers.rounded_to(n) for n in DECIMALS]),
        *change_after_each("project", changes=[numbers.through(t) for t in HALVES]),
        *change_after_each("project", changes=[numbers.through(torch.float32)]),
    ),
    define_rare_mistake(
        "output_rounded",
        "The output is rounded before it is returned.",
        "round | cast | return",
        unless=Capability.BLOCK,
    ).simulated_by(
        *change_after_each("mix", "finish", changes=[numbers.rounded_to(n) for n in DECIMALS]),
        *change_after_each("mix", "finish", changes=[numbers.through(t) for t in HALVES]),
    ),
    define_rare_mistake(
        "scores_clamped",
        "The scores are cut off at a largest and a smallest number before the softmax.",
        "clamp | scores",
    ).simulated_by(
        *change_after_each("match", "scale", changes=[numbers.clamped_to(c) for c in LIMITS])
    ),
    define_rare_mistake(
        "scores_made_positive",
        "Negative scores are set to zero before the softmax.",
        "relu | clamp | scores",
    ).simulated_by(*change_after_each("match", "scale", changes=[numbers.without_negative])),
    define_rare_mistake(
        "input_clamped",
        "The input is cut off at a largest and a smallest number.",
        "clamp | projection",
    ).simulated_by(*change_after_each("see", changes=[numbers.clamped_to(c) for c in LIMITS])),
    define_rare_mistake(
        "output_clamped",
        "The output is cut off at a largest and a smallest number.",
        "last clamp | return",
        unless=Capability.BLOCK,
    ).simulated_by(
        *change_after_each("mix", "finish", changes=[numbers.clamped_to(c) for c in LIMITS])
    ),
    define_rare_mistake(
        "small_weights_dropped",
        "Small attention weights are set to zero; every visible key should count.",
        "compare | softmax",
    ).simulated_by(
        *change_after_each("normalise", changes=[numbers.dropped_below(c) for c in THRESHOLDS]),
        *change_after_each(
            "normalise", changes=[numbers.renormalised_above(c) for c in THRESHOLDS]
        ),
    ),
    define_rare_mistake(
        "best_keys_alone",
        "Only the keys with the largest scores count; every visible key should count.",
        "topk | compare | softmax",
    ).simulated_by(*({"normalise": numbers.of_the_best(count)} for count in range(2, 17))),
    *LIMIT_UNASKED,
    *POSITIONS_UNASKED,
    define_rare_mistake(
        "tokens_reversed",
        "The rows of the output are in reverse order.",
        "flip | stack | return",
        unless=Capability.BLOCK,
    ).simulated_by(*change_after_each("mix", changes=[numbers.reverse_tokens])),
)
