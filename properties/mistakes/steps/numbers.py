"""Faulty steps that change each number of a right step by itself, or by its position."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from headcheck.properties.mistakes.pipeline import (
    CORRECT,
    PipelineState,
    QKVTensors,
    StepOverrides,
    map_qkv,
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


def softcapped_at(limit: float) -> Change:
    return lambda t: limit * torch.tanh(t / limit)


def without_negative(t: Tensor) -> Tensor:
    return t.relu()


def dropped_below(threshold: float) -> Change:
    return lambda t: t * (t > threshold)


# ------------------------------------------------------------------------------ within a row


def renormalised_above(threshold: float) -> Change:
    def drop(weights: Tensor) -> Tensor:
        kept = weights * (weights > threshold)
        return kept / kept.sum(-1, keepdim=True)

    return drop


def of_the_best(count: int) -> Callable[[PipelineState], Tensor]:
    """Hide all keys except those with the largest visible scores."""

    def normalise(s: PipelineState) -> Tensor:
        scores = s.masked_scores
        least = scores.topk(min(count, scores.shape[-1]), dim=-1).values[..., -1:]
        return torch.softmax(scores.masked_fill(scores < least, -math.inf), dim=-1)

    return normalise


# ------------------------------------------------------------------------------- by position


# Positions are counted in float64, or in torch's default dtype whatever the input has.


def far_keys_penalised(
    slope: float | None, dtype: torch.dtype
) -> Callable[[PipelineState], Tensor]:
    """Subtract a slope times the distance from each score; None means the slopes of ALiBi.

    ALiBi's slopes are 2^(-8 h / heads) for head h = 1, 2, … (Press, Smith and Lewis, 2021, section
    3).
    """

    def scale(s: PipelineState) -> Tensor:
        queries, keys = torch.arange(s.inputs.tokens), torch.arange(s.inputs.keys)
        distance, heads = (queries[:, None] - keys).abs().to(dtype), s.inputs.heads
        slopes = 2 ** (-8 * torch.arange(1, heads + 1, dtype=dtype) / heads)
        penalty = slopes[:, None, None] * distance if slope is None else slope * distance
        return s.raw_scores * s.inputs.scale - penalty.to(s.raw_scores.dtype)

    return scale


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


def numbers_of_positions_added(
    change: Callable[[Tensor, int], Tensor],
) -> Callable[[PipelineState], QKVTensors]:
    """Add to all columns of a token a number that is computed from its position and the length."""

    def add(tokens: Tensor) -> Tensor:
        length = tokens.shape[-2]
        return tokens + change(torch.arange(length, dtype=tokens.dtype), length)[:, None]

    return lambda s: map_qkv(add, s.inputs.sources)


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


def reverse_tokens(t: Tensor) -> Tensor:
    return t.flip(-2)
