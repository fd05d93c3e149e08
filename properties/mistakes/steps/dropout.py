"""Dropout in a `Pipeline`, as statements require it and as people get it wrong."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.properties.mistakes.pipeline import (
    Dropping,
    Pipeline,
    PipelineState,
    QKVTensors,
    map_result,
)

Change = Callable[[Tensor, float], Tensor]
"""returns a tensor after dropout at a rate"""


def change_result(step: str, change: Change) -> Dropping:
    """Change the result of a step, in training and in evaluation alike."""

    def put(pipeline: Pipeline, rate: float, training: bool) -> Pipeline:
        compute = getattr(pipeline, step)
        return pipeline.override(
            {step: lambda s: map_result(lambda t: change(t, rate), compute(s))}
        )

    return put


def in_training(dropping: Dropping, otherwise: Dropping | None = None) -> Dropping:
    """Apply this dropout only in training, and another or none in evaluation."""

    def put(pipeline: Pipeline, rate: float, training: bool) -> Pipeline:
        chosen = dropping if training else otherwise
        return pipeline if chosen is None else chosen(pipeline, rate, training)

    return put


def drop(t: Tensor, rate: float) -> Tensor:
    return F.dropout(t, rate)


def draw_kept(t: Tensor, rate: float, *shared: int) -> Tensor:
    """Draw ones for kept elements and zeros for dropped ones; shared dimensions have length one."""
    shape = [1 if dim in shared else size for dim, size in enumerate(t.shape)]
    return torch.empty(shape, dtype=t.dtype, device=t.device).bernoulli_(1 - rate)


def drop_together(*dims: int) -> Change:
    """Drop all weights along these dimensions together."""
    return lambda t, rate: t * draw_kept(t, rate, *dims) / (1 - rate)


def drop_unscaled(t: Tensor, rate: float) -> Tensor:
    return t * draw_kept(t, rate)


def drop_renormalised(t: Tensor, rate: float) -> Tensor:
    kept = drop_unscaled(t, rate)
    return kept / kept.sum(dim=-1, keepdim=True).clamp_min(1e-12)


def at_rate(other: float, instead: float) -> Change:
    """Drop at the rate `other`, or at `instead` if the statement asks for the rate `other`."""
    return lambda t, rate: drop(t, instead if rate == other else other)


def _drop_values(pipeline: Pipeline, rate: float, training: bool) -> Pipeline:
    def assign(s: PipelineState) -> QKVTensors:
        q, k, v = pipeline.assign(s)
        return q, k, drop(v, rate)

    return pipeline.override({"assign": assign})


never: Dropping = in_training(change_result("use", lambda weights, rate: weights))
on_weights: Dropping = in_training(change_result("use", drop))
"""dropout on the weights, as the statement requires"""
on_scores: Dropping = in_training(change_result("scale", drop))
on_masked_scores: Dropping = in_training(change_result("hide", drop))
"""dropout on masked scores, which makes NaN of −∞ times 0"""
on_input: Dropping = in_training(change_result("see", drop))
on_values: Dropping = in_training(_drop_values)
on_context: Dropping = in_training(change_result("merge", drop))
on_output: Dropping = in_training(change_result("finish", drop))
