"""Mistakes in learned numbers that are added to scores by the distance."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import Positions
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.pipeline import PipelineState
from headcheck.reference.relative import RelativeBuckets

Change = Callable[[RelativeBuckets, Tensor], Tensor]
"""returns the bucket of each distance"""


def added_by(change: Change) -> Callable[[PipelineState], Tensor]:
    """Add the numbers of buckets that are found in another way."""
    return lambda s: s.scaled + _make_bias(s, change)


def _make_bias(s: PipelineState, change: Change) -> Tensor:
    buckets, table = s.inputs.variant.relative, s.p.W_rel
    if buckets is None or table is None:
        raise ValueError("there are no buckets")
    queries, keys = s.scaled.shape[-2:]
    position = torch.arange(keys)
    found = change(buckets, position - position[keys - queries :, None])
    return table[found % len(table)].movedim(-1, 0)


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


def scaled_too(s: PipelineState) -> Tensor:
    """Scale the sum of products and numbers."""
    return s.scaled + s.inputs.scale * _make_bias(s, RelativeBuckets.find)


def of_the_first_head(s: PipelineState) -> Tensor:
    """Give all heads the numbers of the first one."""
    return s.scaled + _make_bias(s, RelativeBuckets.find)[:1]


def not_added(s: PipelineState) -> Tensor:
    """Leave the numbers out."""
    return s.scaled


RELATIVE_BIAS = require(
    Positions.RELATIVE,
    define_mistake(
        "relative_numbers_not_added",
        "The learned numbers for distances are not added to the scores.",
    ).simulated_by(adjust=not_added),
    define_mistake(
        "distance_counted_the_other_way",
        "Distances have the wrong sign: a key's position minus the query's is negative for earlier "
        "keys.",
        "arange",
    ).simulated_by(adjust=reversed_in_time),
    define_mistake(
        "buckets_of_the_other_sides",
        "The buckets are for the wrong sides: later keys have buckets of their own only where they "
        "can be seen.",
        "compare | arange",
    ).simulated_by(adjust=of_the_other_sides),
    define_mistake(
        "buckets_without_logarithms",
        "Every distance has a bucket of its own up to the last; the buckets of far distances "
        "should be wider, by the logarithm.",
        "arange",
    ).simulated_by(adjust=without_logarithms),
    define_mistake(
        "relative_numbers_scaled",
        "The learned numbers are scaled with the scores; they are added after the scale.",
        "scale | scores",
    ).simulated_by(adjust=scaled_too),
    define_rare_mistake(
        "relative_numbers_of_the_first_head",
        "All heads get the learned numbers of the first head.",
        "index",
    ).simulated_by(adjust=of_the_first_head),
)
