"""Mistakes in the norm of what heads give."""

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import define_mistake, require
from headcheck.properties.mistakes.steps import head_norms

PATTERN = "last norm | last mean | last times"
HEAD_NORMS = require(
    Capability.NORMED_HEADS,
    define_mistake(
        "head_norm_left_out",
        "What heads give goes into the output layer without its norm.",
        "last reshape",
    ).simulated_by(norm_heads=head_norms.left_out),
    *require(
        Capability.HEADS,
        define_mistake(
            "head_norm_of_other_numbers",
            "The norm of what heads give averages over other numbers: over all heads where each "
            "has its own norm, or over each head where all have one.",
            PATTERN,
        ).simulated_by(norm_heads=head_norms.of_other_numbers),
    ),
    define_mistake(
        "head_norm_of_another_kind",
        "The norm of what heads give subtracts the mean and should not, or should and does not.",
        PATTERN,
    ).simulated_by(norm_heads=head_norms.of_another_kind),
    define_mistake(
        "head_norm_without_gain",
        "What heads give is normed, and not multiplied by the learned gain.",
        PATTERN,
    ).simulated_by(norm_heads=head_norms.without_gain),
    define_mistake(
        "head_norm_without_factor",
        "The normed outputs of heads are not multiplied by the fixed factor, as 1 − λ_init.",
        PATTERN,
    ).simulated_by(norm_heads=head_norms.without_factor),
    define_mistake(
        "head_norm_behind_output_layer",
        "The norm comes after the output layer; what heads give should go through it before.",
        PATTERN,
    ).simulated_by(head_norms.BEHIND_OUTPUT),
    define_mistake(
        "values_normed_for_averages",
        "The values go through the norm; their averages should.",
        PATTERN,
    ).simulated_by(norm_heads=head_norms.of_values),
)
