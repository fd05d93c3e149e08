"""Faulty steps: norms of queries and keys that are left out, misplaced, or another function."""

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from properties.mistakes.pipeline import (
    CORRECT,
    PipelineState,
    QKVTensors,
    StepOverrides,
)

Norm = Callable[[PipelineState, Tensor, Tensor | None, Tensor | None], Tensor]
"""of queries or keys, given a gain and a shift"""


def right_norm(s: PipelineState, t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
    return s.inputs.variant.normalise(t, gain, shift)


def without_gain(s: PipelineState, t: Tensor, _: Tensor | None, shift: Tensor | None) -> Tensor:
    plain = replace(s.inputs.variant, gain_from=1.0)
    return plain.normalise(t, None, shift)


def without_root(s: PipelineState, t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
    variant = s.inputs.variant
    t = t - t.mean(-1, keepdim=True) if variant.norm == "layer" else t
    normed = t * variant.measure(t).square()
    normed = normed if gain is None else normed * (variant.gain_from + gain)
    return normed if shift is None else normed + shift


def by_another_mean(
    s: PipelineState, t: Tensor, gain: Tensor | None, shift: Tensor | None
) -> Tensor:
    """Subtract the mean of what is to be divided only, and divide by the root of the variance."""
    variant = s.inputs.variant
    normed = t * variant.measure(t - t.mean(-1, keepdim=True))
    normed = normed if gain is None else normed * (variant.gain_from + gain)
    return normed if shift is None else normed + shift


def with_gain_from(start: float) -> Norm:
    """Count the gain from another number."""

    def norm(s: PipelineState, t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
        return replace(s.inputs.variant, gain_from=start).normalise(t, gain, shift)

    return norm


def normed_by(
    norm: Norm, *, query: bool = True, key: bool = True, value: bool = False
) -> Callable[[PipelineState], QKVTensors]:
    """Bring these to one size by a norm: values, if at all, by that of the keys."""

    def apply(s: PipelineState) -> QKVTensors:
        q, k, v = s.roles
        q = norm(s, q, s.p.gain_q, s.p.shift_q) if query else q
        k = norm(s, k, s.p.gain_k, s.p.shift_k) if key else k
        return q, k, norm(s, v, s.p.gain_k, s.p.shift_k) if value else v

    return apply


def left_out(s: PipelineState) -> QKVTensors:
    return s.roles


def _place_first(s: PipelineState) -> QKVTensors:
    before = s.copy()
    before.normed = s.roles
    q, k, v = CORRECT.place(before)
    norm = s.inputs.variant.normalise
    return norm(q, s.p.gain_q, s.p.shift_q), norm(k, s.p.gain_k, s.p.shift_k), v


AFTER_POSITIONS: StepOverrides = {"norm": left_out, "place": _place_first}
