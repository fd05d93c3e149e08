"""Mistakes in learned numbers that are added to scores: for distances, offsets and pairs."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import Capability, Positions
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.pipeline import PipelineState
from headcheck.reference import LearnedBias, RelativeBuckets, WindowOffsets

Step = Callable[[PipelineState], Tensor]
FindBuckets = Callable[[RelativeBuckets, Tensor], Tensor]
"""returns the bucket of each distance"""
FindNumbers = Callable[[WindowOffsets, Tensor, Tensor], Tensor]
"""returns the number of each offset, given how far down and to the right it is"""


def _get_bias(s: PipelineState) -> tuple[LearnedBias, Tensor]:
    bias, table = s.inputs.variant.relative, s.p.W_rel
    if bias is None or table is None:
        raise ValueError("there are no learned numbers")
    return bias, table


def _make_bias(s: PipelineState) -> Tensor:
    bias, table = _get_bias(s)
    return bias.bias(table, s.scaled)


def _list_positions(s: PipelineState) -> tuple[Tensor, Tensor]:
    """Return the positions of queries, in a column, and of keys."""
    queries, keys = s.scaled.shape[-2:]
    position = torch.arange(keys)
    return position[keys - queries :, None], position


def _add_rows(s: PipelineState, rows: Tensor) -> Tensor:
    bias, table = _get_bias(s)
    return s.scaled + bias.factor * table[rows % len(table)].movedim(-1, 0)


def added_by(change: FindBuckets) -> Step:
    """Add the numbers of buckets that are found in another way."""

    def step(s: PipelineState) -> Tensor:
        buckets, (queries, keys) = _get_bias(s)[0], _list_positions(s)
        if not isinstance(buckets, RelativeBuckets):
            raise ValueError("there are no buckets")
        return _add_rows(s, change(buckets, keys - queries))

    return step


def numbered_by(change: FindNumbers) -> Step:
    """Add the numbers of offsets that are numbered in another way."""

    def step(s: PipelineState) -> Tensor:
        window = _get_bias(s)[0]
        if not isinstance(window, WindowOffsets):
            raise ValueError("there is no window")
        return _add_rows(s, change(window, *window.find_offsets(*_list_positions(s))))

    return step


def _count(buckets: RelativeBuckets, distance: Tensor) -> Tensor:
    """Give every distance a bucket of its own, up to the last bucket."""
    half = buckets.count // 2 if buckets.both_sides else buckets.count
    later = (distance > 0) * half if buckets.both_sides else 0
    size = distance.abs() if buckets.both_sides else (-distance).clamp_min(0)
    return later + size.clamp_max(half - 1)


reversed_in_time = added_by(lambda buckets, distance: buckets.find(-distance))
of_the_other_sides = added_by(
    lambda buckets, distance: replace(buckets, both_sides=not buckets.both_sides).find(distance)
)
without_logarithms = added_by(_count)


def _number(window: WindowOffsets, down: Tensor, right: Tensor, row: int) -> Tensor:
    """Number offsets by rows, each of which has so many numbers."""
    return (down + window.height - 1) * row + right + window.width - 1


summed = numbered_by(lambda w, down, right: _number(w, down, right, 1))
times_the_width = numbered_by(lambda w, down, right: _number(w, down, right, w.width))
times_the_height = numbered_by(lambda w, down, right: _number(w, down, right, w.sides[0]))
without_signs = numbered_by(lambda w, down, right: _number(w, down.abs(), right.abs(), w.sides[1]))
distances_alone = numbered_by(lambda w, down, right: down.abs() * w.sides[1] + right.abs())


def scaled_too(s: PipelineState) -> Tensor:
    """Scale the sum of products and numbers."""
    bias, table = _get_bias(s)
    return s.scaled + replace(bias, factor=s.inputs.scale).bias(table, s.scaled)


def of_mixed_heads(s: PipelineState) -> Tensor:
    """Read the numbers, whose last axis is that of heads, as if it were the first."""
    bias = _make_bias(s)
    return s.scaled + bias.movedim(0, -1).reshape(bias.shape)


def not_added(s: PipelineState) -> Tensor:
    """Leave the numbers out."""
    return s.scaled


BUCKETS = require(
    Positions.RELATIVE,
    define_mistake(
        "distance_counted_the_other_way",
        "Distances have the wrong sign: they should be a key's position minus the query's, which "
        "is negative for earlier keys.",
    ).simulated_by(adjust=reversed_in_time),
    define_mistake(
        "buckets_of_the_other_sides",
        "The buckets are for the wrong sides: half of them should be for later keys if these can "
        "be seen, and otherwise none.",
    ).simulated_by(adjust=of_the_other_sides),
    define_mistake(
        "buckets_without_logarithms",
        "Every distance has a bucket of its own up to the last; the buckets of far distances "
        "should be wider, by the logarithm.",
    ).simulated_by(adjust=without_logarithms),
)
OFFSETS = require(
    Positions.WINDOWS,
    define_mistake(
        "offsets_share_numbers",
        "Different offsets have the same number. Before the two parts of an offset are added, the "
        "one must be multiplied by the count of values that the other can have, twice the side "
        "minus one.",
        "in_place:(?i)[*]=",
    ).simulated_by({"adjust": summed}, {"adjust": times_the_width}, {"adjust": times_the_height}),
    define_mistake(
        "offsets_without_signs",
        "An offset and its opposite have the same number: the sign is lost.",
    ).simulated_by({"adjust": without_signs}, {"adjust": distances_alone}),
)
LEARNED = require(
    Capability.RELATIVE,
    define_mistake(
        "relative_numbers_not_added",
        "The learned numbers for positions are not added to the scores.",
    ).simulated_by(adjust=not_added),
    define_mistake(
        "relative_numbers_added_to_weights",
        "The learned numbers are added after the softmax; they belong to the scores before it.",
        "add:(?i)rel|bias",
    ).simulated_by(adjust=not_added, use=lambda s: s.weights + _make_bias(s)),
    define_mistake(
        "relative_numbers_of_mixed_heads",
        "A head gets learned numbers of other heads and pairs: the last axis of the table has the "
        "heads, and must be moved to the front before scores are added.",
    ).simulated_by(adjust=of_mixed_heads),
    define_mistake(
        "relative_numbers_scaled",
        "The learned numbers are scaled with the scores; they are added after the scale.",
    ).simulated_by(adjust=scaled_too),
    define_rare_mistake(
        "relative_numbers_of_the_first_head",
        "All heads get the learned numbers of the first head.",
        r"index:\[:1\]|\[\.\.\., 0\]|\[:, 0\]",
    ).simulated_by(adjust=lambda s: s.scaled + _make_bias(s)[:1]),
)
RELATIVE_BIAS = (*BUCKETS, *OFFSETS, *LEARNED)
