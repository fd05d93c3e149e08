"""Mistakes in the norm of what heads give: left out, of other numbers, or another function."""

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import define_mistake, require
from headcheck.properties.mistakes.pipeline import (
    PipelineState,
    StepOverrides,
    merge_heads,
    output_layer,
    split_heads,
)
from headcheck.reference.variant import HeadNorm

OTHER_KIND = {"rms": "layer", "layer": "rms"}
OTHER_NUMBERS = {"head": "projection", "projection": "head"}


def _get_norm(s: PipelineState) -> HeadNorm:
    """Return the norm that the statement asks for. Raises ValueError if there is none."""
    if s.inputs.variant.head_norm is None:
        raise ValueError("there is no norm of what heads give")
    return s.inputs.variant.head_norm


def norm_by(change: Callable[[HeadNorm], HeadNorm]) -> Callable[[PipelineState], Tensor]:
    """Use another norm, with the gain and the shift of the right one."""

    def norm_heads(s: PipelineState) -> Tensor:
        right, p = _get_norm(s), s.p
        normed = change(right).norms.normalise(s.averages)
        if p.gain_heads is not None:
            normed = normed * right.norms.lay_out(p.gain_heads, normed)
        if p.shift_heads is not None:
            normed = normed + right.norms.lay_out(p.shift_heads, normed)
        return right.factor * normed

    return norm_heads


of_other_numbers = norm_by(lambda norm: replace(norm, over=OTHER_NUMBERS[norm.over]))
of_another_kind = norm_by(lambda norm: replace(norm, kind=OTHER_KIND[norm.kind]))


def without_gain(s: PipelineState) -> Tensor:
    if s.p.gain_heads is None:
        raise ValueError("the norm has no gain")
    return _get_norm(s).apply(s.averages, None, s.p.shift_heads)


def without_factor(s: PipelineState) -> Tensor:
    norm = _get_norm(s)
    if norm.factor == 1:
        raise ValueError("there is no factor")
    return replace(norm, factor=1.0).apply(s.averages, s.p.gain_heads, s.p.shift_heads)


def _norm_output(s: PipelineState) -> Tensor:
    if s.p.W_o is None:
        raise ValueError("there is no output layer")
    own = s.p.gain_heads, s.p.shift_heads
    return merge_heads(_get_norm(s).apply(split_heads(output_layer(s), s.inputs.heads), *own))


BEHIND_OUTPUT: StepOverrides = {"norm_heads": lambda s: s.averages, "finish": _norm_output}


def of_values(s: PipelineState) -> Tensor:
    """Norm the values in place of their averages."""
    normed = _get_norm(s).apply(s.value, s.p.gain_heads, s.p.shift_heads)
    return s.applied_weights @ normed


PATTERN = "last norm | last mean | last times"
HEAD_NORMS = require(
    Capability.NORMED_HEADS,
    define_mistake(
        "head_norm_left_out",
        "What heads give goes into the output layer without its norm.",
    ).simulated_by(norm_heads=lambda s: _get_norm(s).factor * s.averages),
    *require(
        Capability.HEADS,
        define_mistake(
            "head_norm_of_other_numbers",
            "The norm of what heads give averages over other numbers: over all heads where each "
            "has its own norm, or over each head where all have one.",
            PATTERN,
        ).simulated_by(norm_heads=of_other_numbers),
    ),
    define_mistake(
        "head_norm_of_another_kind",
        "The norm of what heads give subtracts the mean and should not, or should and does not.",
        PATTERN,
    ).simulated_by(norm_heads=of_another_kind),
    define_mistake(
        "head_norm_without_gain",
        "What heads give is normed, and not multiplied by the learned gain.",
        PATTERN,
    ).simulated_by(norm_heads=without_gain),
    define_mistake(
        "head_norm_without_factor",
        "The normed outputs of heads are not multiplied by the fixed factor, as 1 − λ_init.",
        PATTERN,
    ).simulated_by(norm_heads=without_factor),
    define_mistake(
        "head_norm_behind_output_layer",
        "The norm comes after the output layer; what heads give should go through it before.",
        PATTERN,
    ).simulated_by(BEHIND_OUTPUT),
    define_mistake(
        "values_normed_for_averages",
        "The values go through the norm; their averages should.",
        PATTERN,
    ).simulated_by(norm_heads=of_values),
)
