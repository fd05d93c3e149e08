"""Mistakes in the norms of queries and keys."""

import math
from collections.abc import Callable, Sequence

import torch.nn.functional as F
from torch import Tensor

from headcheck.properties.contracts.contract import Capability, NormOver
from headcheck.properties.mistakes.catalogue.mistake import define_mistake, exclude, require
from headcheck.properties.mistakes.pipeline import (
    CORRECT,
    PipelineState,
    QKVTensors,
    StepOverrides,
    get_last_norm,
    has_whole_norms,
    merge_heads,
    norm_both,
    split_heads,
)
from headcheck.reference.variant import Variant

Norm = Callable[[Variant, Tensor, Tensor | None, Tensor | None], Tensor]
"""normalises queries or keys, with a gain and a shift"""


def right_norm(norm: Variant, t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
    return norm.normalise(t, gain, shift)


def without_gain(norm: Variant, t: Tensor, _: Tensor | None, shift: Tensor | None) -> Tensor:
    return norm.normalise(t, None, shift)


def without_root(norm: Variant, t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
    t = t - t.mean(-1, keepdim=True) if norm.norm == "layer" else t
    return _scale_and_shift(norm, t * norm.measure(t).square(), gain, shift)


def by_another_mean(norm: Variant, t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
    """Subtract the mean only from the dividend, and divide by the root of the variance."""
    size = norm.measure(t - t.mean(-1, keepdim=True))
    return _scale_and_shift(norm, t * size, gain, shift)


def over_tokens(norm: Variant, t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
    """Average each number over the tokens of its sequence."""
    t = t - t.mean(-2, keepdim=True) if norm.norm == "layer" else t
    return _scale_and_shift(norm, t * norm.measure(t.mT).mT, gain, shift)


def to_length_over_tokens(
    norm: Variant, t: Tensor, gain: Tensor | None, shift: Tensor | None
) -> Tensor:
    """Bring each number of the tokens of a sequence to length one, where a head's should be."""
    factor = math.sqrt(t.shape[-1] / t.shape[-2])
    return _scale_and_shift(norm, t * norm.measure(t.mT).mT * factor, gain, shift)


def _scale_and_shift(norm: Variant, t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
    t = t if gain is None else t * (norm.gain_from + gain)
    return t if shift is None else t + shift


def normed_by(
    norm: Norm, *, query: bool = True, key: bool = True, value: bool = False
) -> StepOverrides:
    """Apply a norm to queries, keys or values; values get the parameters of the keys' norm."""

    def apply(s: PipelineState, tensors: QKVTensors) -> QKVTensors:
        (q, k, v), by, p = tensors, get_last_norm(s), s.p
        q = norm(by, q, *p.get_norm("q")) if query else q
        k = norm(by, k, *p.get_norm("k")) if key else k
        return q, k, norm(by, v, *p.get_norm("k")) if value else v

    return _in_place(apply)


def _in_place(apply: Callable[[PipelineState, QKVTensors], QKVTensors]) -> StepOverrides:
    """Apply a function where norms belong: to whole projections, or to each head."""

    def norm_whole(s: PipelineState) -> QKVTensors:
        return apply(s, s.projected) if has_whole_norms(s) else s.projected

    def norm(s: PipelineState) -> QKVTensors:
        return s.roles if has_whole_norms(s) else apply(s, s.roles)

    return {"norm_whole": norm_whole, "norm": norm}


LEFT_OUT = _in_place(lambda s, tensors: tensors)


def _norm_keys_as_queries(s: PipelineState, tensors: QKVTensors) -> QKVTensors:
    (q, k, v), by, p = tensors, get_last_norm(s), s.p
    return by.normalise(q, *p.get_norm("q")), by.normalise(k, *p.get_norm("q")), v


KEYS_AS_QUERIES = _in_place(_norm_keys_as_queries)


def _norm_each_head(s: PipelineState, tensors: QKVTensors) -> QKVTensors:
    """Norm each head alone, with its part of the gain of all heads."""

    def norm(t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
        own = (each if each is None else each.view(t.shape[1], 1, -1) for each in (gain, shift))
        return _scale_and_shift(by, by.normalise(t), *own)

    by = get_last_norm(s)
    return norm_both(s, tensors, norm)


EACH_HEAD: StepOverrides = {
    "norm_whole": lambda s: s.projected,
    "norm": lambda s: _norm_each_head(s, s.roles),
}
"""norms of each head, where norms should be over all heads"""


def norms_of_all_heads(s: PipelineState) -> QKVTensors:
    """Norm all heads together, with the gain of one head, where each should have its own norm."""

    def norm(t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
        normed = split_heads(by.normalise(merge_heads(t)), t.shape[1])
        return _scale_and_shift(by, normed, gain, shift)

    by = get_last_norm(s)
    return norm_both(s, s.roles, norm)


def _place_first(s: PipelineState) -> QKVTensors:
    def norm_whole(t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
        return split_heads(by.normalise(merge_heads(t), gain, shift), t.shape[1])

    by = get_last_norm(s)
    return norm_both(s, CORRECT.place(s), norm_whole if has_whole_norms(s) else by.normalise)


def _place_first_by_head(s: PipelineState) -> QKVTensors:
    return _norm_each_head(s, CORRECT.place(s)) if has_whole_norms(s) else _place_first(s)


AFTER_POSITIONS: tuple[StepOverrides, ...] = (
    {**LEFT_OUT, "place": _place_first},
    {**LEFT_OUT, "place": _place_first_by_head},
)


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


def list_unasked(*roles: str) -> tuple[StepOverrides, ...]:
    """Return ways to put norms over queries, keys or values where there are none.

    The norms are over the columns of each head, or over the columns of all heads before the split.
    """
    by_head = ({"norm": _each(roles, norm)} for norm in NORMS_OF_SIZE)
    before = ({"split": _before_split(roles, norm)} for norm in NORMS_OF_SIZE)
    return (*by_head, *before)


def list_unasked_lengths(*roles: str) -> tuple[StepOverrides, ...]:
    """Return ways to bring queries, keys or values to length one."""
    return {"norm": _each(roles, _length)}, {"split": _before_split(roles, _length)}


def _each(roles: Sequence[str], norm: Plain) -> Callable[[PipelineState], QKVTensors]:
    return lambda s: _apply(roles, norm, s.roles)


def _before_split(roles: Sequence[str], norm: Plain) -> Callable[[PipelineState], QKVTensors]:
    def split(s: PipelineState) -> QKVTensors:
        before = s.copy()
        before.normed_whole = _apply(roles, norm, s.normed_whole)
        return CORRECT.split(before)

    return split


def _apply(roles: Sequence[str], norm: Plain, tensors: QKVTensors) -> QKVTensors:
    named = zip(("query", "key", "value"), tensors, strict=True)
    q, k, v = (norm(t) if name in roles else t for name, t in named)
    return q, k, v


PATTERN = "norm | mean | last times"
NORMS = exclude(
    Capability.UNNORMED,
    define_mistake(
        "norms_left_out",
        "Queries and keys are compared as they are: their norms are not used.",
    ).simulated_by(LEFT_OUT),
    define_mistake(
        "only_queries_normed", "Only the queries go through a norm; the keys should, too.", PATTERN
    ).simulated_by(normed_by(right_norm, key=False)),
    define_mistake(
        "only_keys_normed", "Only the keys go through a norm; the queries should, too.", PATTERN
    ).simulated_by(normed_by(right_norm, query=False)),
    define_mistake(
        "values_normed_too", "The values go through a norm, too; only queries and keys should.",
        PATTERN,
    ).simulated_by(normed_by(right_norm, value=True)),
    define_mistake(
        "norm_without_gain", "What is divided by its size is not multiplied by the learned gain.",
        PATTERN,
    ).simulated_by(normed_by(without_gain)),
    define_mistake(
        "norm_without_root",
        "The norms divide by the mean square; they should divide by the root of it.",
        PATTERN,
    ).simulated_by(normed_by(without_root)),
    define_mistake(
        "norm_of_another_mean",
        "The mean is subtracted where the size is computed, and not from what is divided by it.",
        PATTERN,
    ).simulated_by(normed_by(by_another_mean)),
    define_mistake(
        "query_norm_over_tokens",
        "The norms average over the tokens; they should average over the numbers of each token.",
        PATTERN,
    ).simulated_by(normed_by(over_tokens), normed_by(to_length_over_tokens)),
    define_mistake(
        "queries_norm_for_keys",
        "The keys go through the norm of the queries, which has another gain; they have their own.",
    ).simulated_by(KEYS_AS_QUERIES),
    *require(
        Capability.HEADS,
    define_mistake(
        "norm_of_each_head",
        "The norms average over each head alone; they should average over the numbers of all "
        "heads.",
        PATTERN,
        needs=NormOver.PROJECTION,
    ).simulated_by(EACH_HEAD),
    define_mistake(
        "norm_of_all_heads",
        "The norms average over the numbers of all heads; they should average over each head "
        "alone.",
        PATTERN,
        needs=NormOver.HEAD,
    ).simulated_by(norm=norms_of_all_heads),
    ),
    define_mistake(
        "norm_after_positions",
        "Queries and keys are rotated before they go through their norms, not after.",
        needs=Capability.POSITIONS,
    ).simulated_by(*AFTER_POSITIONS),
)  # fmt: skip
