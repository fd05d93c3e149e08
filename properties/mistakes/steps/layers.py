"""Faulty steps from the tokens to the queries, keys and values of every head."""

from collections.abc import Callable

import torch
from torch import Tensor

from headcheck.properties.mistakes.pipeline import (
    PipelineState,
    QKVTensors,
    linear,
    map_qkv,
    projections,
    split_each,
    split_heads,
)

# ------------------------------------------------------------------------------------------ see


def sources(q: int, k: int, v: int) -> Callable[[PipelineState], QKVTensors]:
    """Project queries, keys and values from the tokens at these positions of (q, k, v)."""

    def see(s: PipelineState) -> QKVTensors:
        own = s.inputs.sources
        return own[q], own[k], own[v]

    return see


def cut_to_length_of_x(s: PipelineState) -> QKVTensors:
    x, k, v = s.inputs.sources
    return x, k[:, : x.shape[1]], v[:, : x.shape[1]]


# -------------------------------------------------------------------------------------- project


def biases_times(q: float, k: float, v: float) -> Callable[[PipelineState], QKVTensors]:
    """Multiply the biases of W_q, W_k and W_v by these factors."""

    def project(s: PipelineState) -> QKVTensors:
        p, (x, y, z) = s.p, s.entered
        b_q, b_k, b_v = (
            None if b is None else times * b for b, times in ((p.b_q, q), (p.b_k, k), (p.b_v, v))
        )
        return linear(x, p.W_q, b_q), linear(y, p.W_k, b_k), linear(z, p.W_v, b_v)

    return project


def with_weights(change: Callable[[Tensor], Tensor]) -> Callable[[PipelineState], QKVTensors]:
    """Project by W_q, W_k and W_v with `change` applied to each."""

    def project(s: PipelineState) -> QKVTensors:
        p, (x, y, z) = s.p, s.entered
        w_q, w_k, w_v = map_qkv(change, (p.W_q, p.W_k, p.W_v))
        return linear(x, w_q, p.b_q), linear(y, w_k, p.b_k), linear(z, w_v, p.b_v)

    return project


# `linear` transposes the weight, so these compute x W, and x times W reshaped to the shape of Wᵀ.
weights_as_stored = with_weights(lambda weight: weight.mT)
weights_reshaped = with_weights(lambda weight: weight.reshape(weight.shape[::-1]).mT)


def head_weights_as_stored(s: PipelineState) -> QKVTensors:
    """Use each head's own weight without transposing it. Raises ValueError unless it is square."""
    if s.inputs.heads > 1:
        raise ValueError("x W: a head is narrower than x, and so is its weight")
    return weights_as_stored(s)


def raw_values(s: PipelineState) -> QKVTensors:
    q, k, _ = projections(s)
    return q, k, s.entered[2]


def raw_values_where_they_fit(s: PipelineState) -> QKVTensors:
    q, k, v = projections(s)
    return q, k, s.entered[2] if s.entered[2].shape == v.shape else v


def relu_on(*which: int) -> Callable[[PipelineState], QKVTensors]:
    def project(s: PipelineState) -> QKVTensors:
        q, k, v = (t.relu() if i in which else t for i, t in enumerate(projections(s)))
        return q, k, v

    return project


# ---------------------------------------------------------------------------------------- split


def straight_view(s: PipelineState) -> QKVTensors:
    return split_each(lambda t, heads: t.reshape(t.shape[0], heads, t.shape[1], -1), s)


def every_nth_column(s: PipelineState) -> QKVTensors:
    return split_each(lambda t, heads: t.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2), s)


def split_into(count: Callable[[PipelineState], int]) -> Callable[[PipelineState], QKVTensors]:
    """Split into `count` heads instead of the number that the statement asks for."""
    return lambda s: map_qkv(lambda t: split_heads(t, count(s)), s.normed_whole)


def heads_behind_tokens(s: PipelineState) -> QKVTensors:
    return map_qkv(lambda t: t.unflatten(-1, (s.inputs.heads, -1)), s.normed_whole)


def overlapping_slices(s: PipelineState) -> QKVTensors:
    width = s.inputs.head_dim
    return split_each(
        lambda t, heads: torch.stack([t[..., i : i + width] for i in range(heads)], dim=1), s
    )


def _pack(s: PipelineState) -> Tensor:
    return torch.cat(s.normed_whole, dim=-1)


def packed_by_view(s: PipelineState) -> QKVTensors:
    parts = _pack(s).reshape(3, *s.normed_whole[0].shape).unbind(0)
    return map_qkv(lambda t: split_heads(t, s.inputs.heads), parts)


def packed_by_view_of_each_sequence(s: PipelineState) -> QKVTensors:
    batch, tokens, width = s.normed_whole[0].shape
    parts = _pack(s).reshape(batch, 3, tokens, width).unbind(1)
    return map_qkv(lambda t: split_heads(t, s.inputs.heads), parts)


def packed_by_straight_view(s: PipelineState) -> QKVTensors:
    batch, tokens, _ = s.normed_whole[0].shape
    q, k, v = _pack(s).reshape(batch, 3, s.inputs.heads, tokens, -1).unbind(1)
    return q, k, v


def packed_every_third(s: PipelineState) -> QKVTensors:
    parts = _pack(s).unflatten(-1, (-1, 3)).unbind(-1)
    return map_qkv(lambda t: split_heads(t, s.inputs.heads), parts)


def packed_per_head(s: PipelineState) -> QKVTensors:
    q, k, v = _pack(s).unflatten(-1, (s.inputs.heads, -1)).transpose(1, 2).chunk(3, dim=-1)
    return q, k, v


# --------------------------------------------------------------------------------------- assign


def roles(q: int, k: int, v: int) -> Callable[[PipelineState], QKVTensors]:
    """Take queries, keys and values from these positions of (q, k, v)."""
    return lambda s: (s.split[q], s.split[k], s.split[v])
