"""Mistakes in a handwritten backward of attention whose forward is right."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.blocks import softmax_of_each_block
from headcheck.properties.mistakes.catalogue.mistake import define_rare_mistake, require
from headcheck.properties.mistakes.pipeline import PipelineState, QKVTensors, StepOverrides


@dataclass(frozen=True, eq=False)
class Known:
    """The inputs of a backward: the forward's results, and the gradient of the heads' output."""

    state: PipelineState
    d_output: Tensor  # batch heads queries head_dim

    @property
    def weights(self) -> Tensor:
        """P."""
        return self.state.applied_weights

    @property
    def d_weights(self) -> Tensor:
        """The gradient of P: dP."""
        return self.d_output @ self.state.value.mT

    @property
    def scale(self) -> float:
        return self.state.inputs.scale

    @property
    def block(self) -> int:
        return self.state.inputs.block or max(self.weights.shape[-2:])

    def number_blocks(self, axis: int) -> Tensor:
        """Return the number of the block of each query (axis -2) or key (axis -1)."""
        return torch.arange(self.weights.shape[axis]) // self.block


Part = Callable[[Known], Tensor]
Finish = Callable[[Known, Tensor, Tensor], QKVTensors]
"""Computes the gradients of query, key and value from the weights and the gradient of the
scores."""


# ------------------------------------------------------------------------------- the right one


def own_weights(k: Known) -> Tensor:
    return k.weights


def own_mean(k: Known) -> Tensor:
    return (k.weights * k.d_weights).sum(-1, keepdim=True)


def into_scores(k: Known, weights: Tensor, mean: Tensor) -> Tensor:
    return weights * (k.d_weights - mean)


def products(k: Known, weights: Tensor, d_scores: Tensor) -> QKVTensors:
    query, key, _ = k.state.shared
    return (
        k.scale * d_scores @ key,
        k.scale * d_scores.mT @ query,
        weights.mT @ k.d_output,
    )


class _WithBackward(torch.autograd.Function):
    """The average of the values, with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, state: PipelineState, propagate: Any, *roles: Tensor) -> Tensor:
        ctx.state, ctx.propagate = state, propagate
        return state.applied_weights @ roles[2]

    @staticmethod
    def backward(ctx: Any, *d_outputs: Tensor) -> Any:
        return None, None, *ctx.propagate(Known(ctx.state, d_outputs[0]))


def with_backward(
    weights: Part = own_weights,
    mean: Part = own_mean,
    slope: Callable[[Known, Tensor, Tensor], Tensor] = into_scores,
    finish: Finish = products,
    begin: Callable[[Tensor], Tensor] = torch.clone,
) -> StepOverrides:
    """Return the override with the right forward and another backward."""

    def propagate(given: Known) -> QKVTensors:
        k = replace(given, d_output=begin(given.d_output))
        used = weights(k)
        return finish(k, used, slope(k, used, mean(k)))

    def mix(s: PipelineState) -> Tensor:
        mixed: Tensor = _WithBackward.apply(s, propagate, *s.shared)  # type: ignore[no-untyped-call]
        return mixed

    return {"mix": mix}


# ------------------------------------------------------------------------------- weights


def times_exponential_of_maximum(k: Known) -> Tensor:
    """Recompute the weights with a log-sum-exp from which the maximum is missing."""
    return k.weights * k.state.masked_scores.amax(-1, keepdim=True).exp()


def times_sum(k: Known) -> Tensor:
    """Subtract the maximum instead of the log-sum-exp."""
    scores = k.state.masked_scores
    return (scores - scores.amax(-1, keepdim=True)).exp()


def without_mask(k: Known) -> Tensor:
    """Recompute the weights without the mask, so that hidden scores are visible."""
    return (k.state.scores - k.state.masked_scores.logsumexp(-1, keepdim=True)).exp()


def masked_at_the_top_left(k: Known) -> Tensor:
    """Recompute scores with a causal mask that is aligned at the first key."""
    scores = k.state.scores
    if k.state.inputs.causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -math.inf)
    return (scores - k.state.masked_scores.logsumexp(-1, keepdim=True)).exp()


def of_unscaled_scores(k: Known) -> Tensor:
    """Recompute scores without the scale."""
    shown = k.state.masked_scores > -math.inf
    raw = k.state.raw_scores.masked_fill(~shown, -math.inf)
    return (raw - k.state.masked_scores.logsumexp(-1, keepdim=True)).exp()


def without_short_blocks(*axes: int) -> Part:
    """Leave out the last block of queries (axis -2) or of keys (axis -1) if it is shorter."""

    def weights(k: Known) -> Tensor:
        kept = k.weights
        for axis in axes:
            count = kept.shape[axis]
            left = torch.arange(count) >= max(k.block, count - count % k.block)
            kept = kept.masked_fill(left[:, None] if axis == -2 else left, 0.0)
        return kept

    return weights


# ------------------------------------------------------------------------------- mean, slope


def mean_of_each_tile(k: Known) -> Tensor:
    """Subtract a separate mean in each block of keys."""
    parts = (k.weights * k.d_weights).split(k.block, -1)
    return torch.cat([part.sum(-1, keepdim=True).expand_as(part) for part in parts], dim=-1)


def without_weights(k: Known, weights: Tensor, mean: Tensor) -> Tensor:
    """Return dP - D at the visible positions."""
    return (k.d_weights - mean) * (weights > 0)


# ------------------------------------------------------------------------------- finish


def times_scale(query: int, key: int) -> Finish:
    """Multiply the gradients of queries and keys by other powers of the scale."""

    def finish(k: Known, weights: Tensor, d_scores: Tensor) -> QKVTensors:
        d_query, d_key, d_value = products(k, weights, d_scores)
        return d_query * k.scale ** (query - 1), d_key * k.scale ** (key - 1), d_value

    return finish


def query_and_key_exchanged(k: Known, weights: Tensor, d_scores: Tensor) -> QKVTensors:
    """Exchange the gradients of queries and keys, which have equal shapes only if counts do."""
    d_query, d_key, d_value = products(k, weights, d_scores)
    return d_key, d_query, d_value


def key_and_value_exchanged(k: Known, weights: Tensor, d_scores: Tensor) -> QKVTensors:
    d_query, d_key, d_value = products(k, weights, d_scores)
    return d_query, d_value, d_key


def values_by_rows(k: Known, weights: Tensor, d_scores: Tensor) -> QKVTensors:
    """Take P dO for Pᵀ dO in each tile, which is possible only if all tiles are square."""
    d_query, d_key, _ = products(k, weights, d_scores)
    return d_query, d_key, _multiply_tiles(k, weights, k.d_output)


def keys_by_rows(k: Known, weights: Tensor, d_scores: Tensor) -> QKVTensors:
    """Take dS Q for dSᵀ Q in each tile, which is possible only if all tiles are square."""
    d_query, _, d_value = products(k, weights, d_scores)
    return d_query, k.scale * _multiply_tiles(k, d_scores, k.state.query), d_value


def _multiply_tiles(k: Known, left: Tensor, right: Tensor) -> Tensor:
    """Multiply untransposed tiles by the rows of their queries, and add up the results by keys."""
    tiles = [columns.split(k.block, -2) for columns in left.split(k.block, -1)]
    rows = right.split(k.block, -2)
    sums = [
        torch.stack([t @ r for t, r in zip(column, rows, strict=True)]).sum(0) for column in tiles
    ]
    return torch.cat(sums, dim=-2)


def queries_of_last_tile(is_last: Part) -> Finish:
    """Use only the last tile's contribution to the gradient of a query."""

    def finish(k: Known, weights: Tensor, d_scores: Tensor) -> QKVTensors:
        _, d_key, d_value = products(k, weights, d_scores)
        return k.scale * (d_scores * is_last(k)) @ k.state.key, d_key, d_value

    return finish


def keys_of_last_tile(k: Known, weights: Tensor, d_scores: Tensor) -> QKVTensors:
    """Use only the last tile's contribution to the gradients of a key and a value."""
    numbers = k.number_blocks(-2)
    last = (numbers == numbers[-1])[:, None]
    d_query, _, _ = products(k, weights, d_scores)
    _, d_key, d_value = products(k, weights * last, d_scores * last)
    return d_query, d_key, d_value


def is_last_of_all(k: Known) -> Tensor:
    """Return which keys are in the last block."""
    numbers = k.number_blocks(-1)
    return numbers == numbers[-1]


def is_last_seen(k: Known) -> Tensor:
    """Return which keys are in the last block from which a tile of queries sees some key."""
    if not k.state.inputs.causal:
        return is_last_of_all(k)
    rows = k.number_blocks(-2)
    ends = torch.minimum((rows + 1) * k.block, torch.tensor(len(rows))) + k.state.inputs.earlier
    return k.number_blocks(-1) == ((ends - 1) // k.block)[:, None]


BACKWARD = require(
    Capability.RECOMPUTED,
    define_rare_mistake(
        "no_mean_in_backward",
        "In the backward no mean is subtracted: dS is P ∘ dP, and not P ∘ (dP − D) with "
        "D = rowsum(dO ∘ O).",
    ).simulated_by(with_backward(mean=lambda k: torch.zeros_like(k.weights[..., :1]))),
    define_rare_mistake(
        "mean_of_each_tile",
        "In the backward the mean D is taken over each tile, and not over all keys of a query.",
    ).simulated_by(with_backward(mean=mean_of_each_tile)),
    define_rare_mistake(
        "mean_without_weights",
        "In the backward D is the sum of dP, and not its mean by the weights, rowsum(P ∘ dP).",
    ).simulated_by(with_backward(mean=lambda k: k.d_weights.sum(-1, keepdim=True))),
    define_rare_mistake(
        "mean_added_in_backward",
        "In the backward the mean D is added to dP instead of subtracted from it.",
    ).simulated_by(with_backward(slope=lambda k, weights, mean: weights * (k.d_weights + mean))),
    define_rare_mistake(
        "no_weights_in_backward",
        "In the backward dS lacks the factor P: it is dP − D.",
    ).simulated_by(with_backward(slope=without_weights)),
    define_rare_mistake(
        "no_scale_in_backward",
        "The gradients of query and key are not multiplied by the scale.",
    ).simulated_by(with_backward(finish=times_scale(0, 0))),
    define_rare_mistake(
        "no_scale_in_query_gradient",
        "The gradient of the queries is not multiplied by the scale.",
    ).simulated_by(with_backward(finish=times_scale(0, 1))),
    define_rare_mistake(
        "no_scale_in_key_gradient",
        "The gradient of the keys is not multiplied by the scale.",
    ).simulated_by(with_backward(finish=times_scale(1, 0))),
    define_rare_mistake(
        "scaled_twice_in_backward",
        "The gradients of query and key are multiplied by the scale twice.",
    ).simulated_by(
        with_backward(finish=times_scale(2, 2)),
        with_backward(finish=times_scale(2, 1)),
        with_backward(finish=times_scale(1, 2)),
    ),
    define_rare_mistake(
        "key_and_value_gradients_exchanged",
        "The gradients of key and value are exchanged in the return value.",
    ).simulated_by(with_backward(finish=key_and_value_exchanged)),
    define_rare_mistake(
        "query_and_key_gradients_exchanged",
        "The gradients of query and key are exchanged in the return value.",
    ).simulated_by(with_backward(finish=query_and_key_exchanged)),
    define_rare_mistake(
        "gradient_of_the_output_ignored",
        "The backward uses ones as the gradient of the output, and ignores the gradient that it "
        "gets.",
    ).simulated_by(with_backward(begin=torch.ones_like)),
    define_rare_mistake(
        "value_gradient_by_untransposed_weights",
        "The gradient of the values is P dO, and not Pᵀ dO: the weights are not transposed.",
    ).simulated_by(with_backward(finish=values_by_rows)),
    define_rare_mistake(
        "key_gradient_by_untransposed_scores",
        "The gradient of the keys is dS Q, and not dSᵀ Q: dS is not transposed.",
    ).simulated_by(with_backward(finish=keys_by_rows)),
    define_rare_mistake(
        "mask_missing_in_backward",
        "In the backward nothing is hidden: later tokens get weights, too.",
        needs=Capability.CAUSAL_OPTION,
    ).simulated_by(with_backward(weights=without_mask)),
    define_rare_mistake(
        "mask_at_the_top_left_in_backward",
        "In the backward the causal mask begins at the first key, unlike in the forward.",
        needs=Capability.CAUSAL_OPTION,
    ).simulated_by(with_backward(weights=masked_at_the_top_left)),
    define_rare_mistake(
        "short_block_dropped_in_backward",
        "The backward leaves out the last block if it is shorter than the others.",
    ).simulated_by(
        *(with_backward(weights=without_short_blocks(*axes)) for axes in ((-1,), (-2,), (-1, -2)))
    ),
    define_rare_mistake(
        "tiles_overwrite_query_gradients",
        "The gradient of a query comes only from its last tile: tiles are not added up.",
    ).simulated_by(
        with_backward(finish=queries_of_last_tile(is_last_of_all)),
        with_backward(finish=queries_of_last_tile(is_last_seen)),
    ),
    define_rare_mistake(
        "tiles_overwrite_key_gradients",
        "The gradients of a key and its value come only from their last tile: tiles are not "
        "added up.",
    ).simulated_by(with_backward(finish=keys_of_last_tile)),
    define_rare_mistake(
        "saved_logsumexp_without_the_maximum",
        "The log-sum-exp that the backward subtracts lacks the maximum of the scores.",
    ).simulated_by(with_backward(weights=times_exponential_of_maximum)),
    define_rare_mistake(
        "saved_maximum_for_the_logsumexp",
        "The backward subtracts the maximum of the scores and not their log-sum-exp: its weights "
        "do not sum to one.",
    ).simulated_by(with_backward(weights=times_sum)),
    define_rare_mistake(
        "unscaled_scores_in_backward",
        "The backward recomputes the scores without the scale.",
    ).simulated_by(with_backward(weights=of_unscaled_scores)),
    define_rare_mistake(
        "softmax_of_each_tile_in_backward",
        "The backward takes a softmax of each tile, and not the exponentials of scores less the "
        "log-sum-exp.",
        "last softmax",
    ).simulated_by(
        with_backward(weights=lambda k: softmax_of_each_block(k.state).nan_to_num(nan=0.0))
    ),
)
