"""Faulty steps for norms of queries and keys: left out, misplaced, or another function."""

from collections.abc import Callable
from dataclasses import replace

import torch.nn.functional as F
from torch import Tensor

from headcheck.properties.mistakes.pipeline import (
    CORRECT,
    PipelineState,
    QKVTensors,
    StepOverrides,
)

Norm = Callable[[PipelineState, Tensor, Tensor | None, Tensor | None], Tensor]
"""normalises queries or keys, with a gain and a shift"""


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
    """Subtract the mean only from the dividend, and divide by the root of the variance."""
    variant = s.inputs.variant
    normed = t * variant.measure(t - t.mean(-1, keepdim=True))
    normed = normed if gain is None else normed * (variant.gain_from + gain)
    return normed if shift is None else normed + shift


def with_gain_from(start: float) -> Norm:
    """Add another number to the stored gain."""

    def norm(s: PipelineState, t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
        return replace(s.inputs.variant, gain_from=start).normalise(t, gain, shift)

    return norm


def normed_by(
    norm: Norm, *, query: bool = True, key: bool = True, value: bool = False
) -> Callable[[PipelineState], QKVTensors]:
    """Apply a norm to queries, keys or values; values get the parameters of the keys' norm."""

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


# ---------------------------------------------------------------------- that nobody asks for

Plain = Callable[[Tensor], Tensor]
"""a norm over the last axis, without a gain"""


def _layer(t: Tensor) -> Tensor:
    return F.layer_norm(t, t.shape[-1:])


def _root_mean_square(eps: float | None) -> Plain:
    return lambda t: F.rms_norm(t, t.shape[-1:], eps=eps)


def _length(t: Tensor) -> Tensor:
    return F.normalize(t, dim=-1)


NORMS_OF_SIZE: tuple[Plain, ...] = (
    _layer, *(_root_mean_square(eps) for eps in (None, 1e-5, 1e-6, 1e-8)),
)  # fmt: skip
"""the norms of torch's layers, with the numbers that people add to the mean square"""


def list_unasked(
    *, query: bool = False, key: bool = False, value: bool = False
) -> tuple[StepOverrides, ...]:
    """Return ways to put norms over queries, keys or values where there are none.

    The norms are over the columns of each head, or over the columns of all heads before the split.
    """
    which = query, key, value
    by_head = ({"norm": _each(which, norm)} for norm in NORMS_OF_SIZE)
    before = ({"split": _before_split(which, norm)} for norm in NORMS_OF_SIZE)
    return (*by_head, *before)


def list_unasked_lengths(
    *, query: bool = False, key: bool = False, value: bool = False
) -> tuple[StepOverrides, ...]:
    """Return ways to bring queries, keys or values to length one."""
    which = query, key, value
    return {"norm": _each(which, _length)}, {"split": _before_split(which, _length)}


def _each(which: tuple[bool, ...], norm: Plain) -> Callable[[PipelineState], QKVTensors]:
    return lambda s: _apply(which, norm, s.roles)


def _before_split(which: tuple[bool, ...], norm: Plain) -> Callable[[PipelineState], QKVTensors]:
    def split(s: PipelineState) -> QKVTensors:
        before = s.copy()
        before.projected = _apply(which, norm, s.projected)
        return CORRECT.split(before)

    return split


def _apply(which: tuple[bool, ...], norm: Plain, tensors: QKVTensors) -> QKVTensors:
    q, k, v = (norm(t) if chosen else t for t, chosen in zip(tensors, which, strict=True))
    return q, k, v
