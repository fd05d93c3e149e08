"""Wrong steps from the tokens to queries, keys and values of every head."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from properties.mistakes.pipeline import PipelineState, QKVTensors, linear, projections, split_heads

# ------------------------------------------------------------------------------------------ see


def normalised_tokens(s: PipelineState) -> Tensor:
    return F.layer_norm(s.inputs.x, s.inputs.x.shape[-1:])


def centred_tokens(s: PipelineState) -> Tensor:
    return s.inputs.x - s.inputs.x.mean(dim=1, keepdim=True)


# -------------------------------------------------------------------------------------- project


def by_layers(q: int, k: int, v: int) -> Callable[[PipelineState], QKVTensors]:
    """Queries, keys and values from these of the layers W_q, W_k, W_v."""

    def project(s: PipelineState) -> QKVTensors:
        made = projections(s)
        return made[q], made[k], made[v]

    return project


def biases_times(q: float, k: float, v: float) -> Callable[[PipelineState], QKVTensors]:
    """The biases of the three layers, this many times each."""

    def project(s: PipelineState) -> QKVTensors:
        p = s.p
        b_q, b_k, b_v = (
            None if b is None else times * b for b, times in ((p.b_q, q), (p.b_k, k), (p.b_v, v))
        )
        return linear(s.x, p.W_q, b_q), linear(s.x, p.W_k, b_k), linear(s.x, p.W_v, b_v)

    return project


def biases_along_tokens(s: PipelineState) -> QKVTensors:
    p = s.p
    q, k, v = linear(s.x, p.W_q, p.b_q), linear(s.x, p.W_k, p.b_k), linear(s.x, p.W_v)
    return q, k, v if p.b_v is None else v + p.b_v.unsqueeze(-1)


def weights_as_stored(s: PipelineState) -> QKVTensors:
    p = s.p
    q, k, v = s.x @ p.W_q, s.x @ p.W_k, s.x @ p.W_v
    return (
        q if p.b_q is None else q + p.b_q,
        k if p.b_k is None else k + p.b_k,
        v if p.b_v is None else v + p.b_v,
    )


def weights_reshaped(s: PipelineState) -> QKVTensors:
    p = s.p

    def reshape_to_transpose(weight: Tensor) -> Tensor:
        return weight.reshape(weight.shape[::-1]).mT

    return (
        linear(s.x, reshape_to_transpose(p.W_q), p.b_q),
        linear(s.x, reshape_to_transpose(p.W_k), p.b_k),
        linear(s.x, reshape_to_transpose(p.W_v), p.b_v),
    )


def raw_values(s: PipelineState) -> QKVTensors:
    q, k, _ = projections(s)
    return q, k, s.x


def raw_values_where_they_fit(s: PipelineState) -> QKVTensors:
    q, k, v = projections(s)
    return q, k, s.x if s.x.shape == v.shape else v


def raw_queries_and_keys(s: PipelineState) -> QKVTensors:
    return s.x, s.x, projections(s)[2]


def nothing_projected(s: PipelineState) -> QKVTensors:
    return s.x, s.x, s.x


def relu_on(*which: int) -> Callable[[PipelineState], QKVTensors]:
    def project(s: PipelineState) -> QKVTensors:
        q, k, v = (t.relu() if i in which else t for i, t in enumerate(projections(s)))
        return q, k, v

    return project


def bias_after_scaling(s: PipelineState) -> QKVTensors:
    q, k, v = projections(s)
    # The scale comes later: what it must not reach is made larger by as much.
    return q if s.p.b_q is None else q - s.p.b_q + s.p.b_q / s.inputs.scale, k, v


# ---------------------------------------------------------------------------------------- split


def straight_view(s: PipelineState) -> QKVTensors:
    q, k, v = (t.reshape(t.shape[0], s.inputs.heads, t.shape[1], -1) for t in s.projected)
    return q, k, v


def every_nth_column(s: PipelineState) -> QKVTensors:
    q, k, v = (
        t.unflatten(-1, (t.shape[-1] // s.inputs.heads, s.inputs.heads)).permute(0, 3, 1, 2)
        for t in s.projected
    )
    return q, k, v


def split_into(count: Callable[[PipelineState], int]) -> Callable[[PipelineState], QKVTensors]:
    """As many heads as `count` says, and not as many as were asked for."""

    def split(s: PipelineState) -> QKVTensors:
        q, k, v = (split_heads(t, count(s)) for t in s.projected)
        return q, k, v

    return split


def heads_behind_tokens(s: PipelineState) -> QKVTensors:
    q, k, v = (t.unflatten(-1, (s.inputs.heads, -1)) for t in s.projected)
    return q, k, v


def overlapping_slices(s: PipelineState) -> QKVTensors:
    width = s.inputs.head_dim
    q, k, v = (
        torch.stack([t[..., i : i + width] for i in range(s.inputs.heads)], dim=1)
        for t in s.projected
    )
    return q, k, v


def _pack(s: PipelineState) -> Tensor:
    return torch.cat(s.projected, dim=-1)


def _split_all_heads(q: Tensor, k: Tensor, v: Tensor, s: PipelineState) -> QKVTensors:
    heads = s.inputs.heads
    return split_heads(q, heads), split_heads(k, heads), split_heads(v, heads)


def packed_by_view(s: PipelineState) -> QKVTensors:
    q, k, v = _pack(s).reshape(3, *s.projected[0].shape).unbind(0)
    return _split_all_heads(q, k, v, s)


def packed_every_third(s: PipelineState) -> QKVTensors:
    q, k, v = _pack(s).unflatten(-1, (-1, 3)).unbind(-1)
    return _split_all_heads(q, k, v, s)


def packed_per_head(s: PipelineState) -> QKVTensors:
    q, k, v = _pack(s).unflatten(-1, (s.inputs.heads, -1)).transpose(1, 2).chunk(3, dim=-1)
    return q, k, v


# --------------------------------------------------------------------------------------- assign


def roles(q: int, k: int, v: int) -> Callable[[PipelineState], QKVTensors]:
    """Queries, keys and values taken from these places of (q, k, v)."""
    return lambda s: (s.split[q], s.split[k], s.split[v])


def repeat_first_head(t: Tensor) -> Tensor:
    return t[:, :1].expand_as(t)


def repeat_first_sequence(t: Tensor) -> Tensor:
    return t[:1].expand_as(t)


def keys_of(head: int) -> Callable[[PipelineState], QKVTensors]:
    """One head's keys for all heads."""
    return lambda s: (s.split[0], s.split[1][:, head, None].expand_as(s.split[1]), s.split[2])


def values_of(head: int) -> Callable[[PipelineState], QKVTensors]:
    """One head's values for all heads."""
    return lambda s: (s.split[0], s.split[1], s.split[2][:, head, None].expand_as(s.split[2]))


def keys_of_first_sequence(s: PipelineState) -> QKVTensors:
    return s.split[0], repeat_first_sequence(s.split[1]), s.split[2]


def first_sequence_only(s: PipelineState) -> QKVTensors:
    q, k, v = (repeat_first_sequence(t) for t in s.split)
    return q, k, v
