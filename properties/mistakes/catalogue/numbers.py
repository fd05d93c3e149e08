"""Mistakes that change each number by itself or by its position: rounding, limits, positions.

These mistakes are rare, and each has many variants, one for every likely constant. So they are
tried only if no other mistake explains an answer, and never in pairs.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import Mistake, define_rare_mistake, exclude
from headcheck.properties.mistakes.pipeline import (
    CORRECT,
    PipelineState,
    QKVTensors,
    StepOverrides,
    map_result,
)

Change = Callable[[Tensor], Tensor]
"""changes each number of a tensor independently of the others"""


def change_after(step: str, change: Change) -> StepOverrides:
    """Return the override with a right step whose result is changed."""
    right = getattr(CORRECT, step)

    def changed(s: PipelineState) -> object:
        return map_result(change, right(s))

    return {step: changed}


def change_returned(number: int, change: Change) -> StepOverrides:
    """Return the override that changes one of the results."""

    def give(s: PipelineState) -> tuple[Tensor, ...]:
        return tuple(change(t) if i == number else t for i, t in enumerate(CORRECT.give(s)))

    return {"give": give}


def change_after_each(*steps: str, changes: list[Change]) -> tuple[StepOverrides, ...]:
    """Return all overrides that make one of the changes after one of the steps."""
    return tuple(change_after(step, change) for change in changes for step in steps)


# ------------------------------------------------------------------------------- one by one


def rounded_to(decimals: int) -> Change:
    return lambda t: torch.round(t, decimals=decimals)


def through(dtype: torch.dtype) -> Change:
    return lambda t: t.to(dtype).to(t.dtype)


def clamped_to(limit: float) -> Change:
    return lambda t: t.clamp(-limit, limit)


# ------------------------------------------------------------------------------- by position


# Positions are counted in float64, or in torch's default dtype whatever the input has.


Divide = Callable[[Tensor, Tensor, int], Tensor]
"""computes the angles of positions, given the even numbers of columns, and the width"""

DIVISIONS: tuple[Divide, ...] = (
    lambda position, column, width: position / 10_000 ** (column / width),
    lambda position, column, width: position * (column * (-math.log(10_000.0) / width)).exp(),
    lambda position, column, width: position * (1.0 / 10_000 ** (column / width)),
)
"""ways to write the same formula, which differ in float32"""


def positions_added(
    dtype: torch.dtype, divide: Divide = DIVISIONS[0], *, halves: bool = False, values: bool = True
) -> Callable[[PipelineState], QKVTensors]:
    """Add the sines and cosines of Vaswani et al. (2017), section 3.5.

    Sines and cosines alternate, or all sines come first. They may be added only to the input of
    queries and keys.
    """

    def add(tokens: Tensor) -> Tensor:
        length, width = tokens.shape[-2:]
        pairs = (width + 1) // 2
        position = torch.arange(length, dtype=dtype)[:, None]
        angle = divide(position, torch.arange(0, 2 * pairs, 2, dtype=dtype), width)
        waves = angle.sin(), angle.cos()
        laid = torch.cat(waves, -1) if halves else torch.stack(waves, -1).flatten(-2)
        return tokens + laid[:, :width].to(tokens.dtype)

    def see(s: PipelineState) -> QKVTensors:
        x, k, v = s.inputs.sources
        return add(x), add(k), add(v) if values else v

    return see


def _turn(t: Tensor, dtype: torch.dtype, *, interleaved: bool) -> Tensor:
    """Rotate pairs of columns by the angles of Su et al. (2021), section 3.4.2."""
    tokens, width = t.shape[-2:]
    pairs = torch.arange(width // 2, dtype=dtype)
    angle = torch.arange(tokens, dtype=dtype)[:, None] / 10_000 ** (2 * pairs / width)
    cos, sin = angle.cos().to(t.dtype), angle.sin().to(t.dtype)
    one, other = (t[..., 0::2], t[..., 1::2]) if interleaved else t.chunk(2, dim=-1)
    turned = one * cos - other * sin, one * sin + other * cos
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


def rotated(dtype: torch.dtype, *, interleaved: bool) -> Callable[[PipelineState], QKVTensors]:
    """Rotate queries and keys by their positions. Raises RuntimeError for an odd width."""

    def assign(s: PipelineState) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = s.split
        q, k = (_turn(t, dtype, interleaved=interleaved) for t in (q, k))
        return q, k, v

    return assign


LIMITS = (0.5, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 25, 30, 50, 80, 100)
DECIMALS = range(7)
HALVES = (torch.float16, torch.bfloat16)
DTYPES = (torch.float64, torch.float32)

POSITIONS_UNASKED = exclude(
    Capability.POSITIONS,
    define_rare_mistake(
        "positions_added",
        "Sines and cosines of the positions are added to the input; the exercise has no positions.",
    ).simulated_by(
        *(
            {"see": positions_added(dtype, divide, halves=halves, values=values)}
            for values in (True, False)
            for halves in (False, True)
            for dtype in DTYPES
            for divide in DIVISIONS[: 1 if dtype is torch.float64 else None]
        )
    ),
    define_rare_mistake(
        "rotated_by_position",
        "Queries and keys are rotated by their positions; the exercise has no positions.",
    ).simulated_by(
        *(
            {"assign": rotated(dtype, interleaved=interleaved)}
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
    ).simulated_by(
        *change_after_each("normalise", changes=[rounded_to(n) for n in DECIMALS]),
        *change_after_each("normalise", changes=[through(t) for t in HALVES]),
        *change_after_each("normalise", changes=[through(torch.float32)]),
    ),
    define_rare_mistake("input_rounded", "The input is rounded before it is used.").simulated_by(
        *change_after_each("see", changes=[rounded_to(n) for n in DECIMALS]),
        *change_after_each("see", changes=[through(t) for t in HALVES]),
        *change_after_each("see", changes=[through(torch.float32)]),
    ),
    define_rare_mistake(
        "scores_clamped",
        "The scores are cut off at a largest and a smallest number before the softmax.",
    ).simulated_by(*change_after_each("match", "scale", changes=[clamped_to(c) for c in LIMITS])),
    *POSITIONS_UNASKED,
)
