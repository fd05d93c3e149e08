"""Mistakes in a handwritten backward of attention whose forward is right."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import Capability
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
) -> StepOverrides:
    """Return the override with the right forward and another backward."""

    def propagate(k: Known) -> QKVTensors:
        used = weights(k)
        return finish(k, used, slope(k, used, mean(k)))

    def mix(s: PipelineState) -> Tensor:
        mixed: Tensor = _WithBackward.apply(s, propagate, *s.shared)  # type: ignore[no-untyped-call]
        return mixed

    return {"mix": mix}


# ------------------------------------------------------------------------------- parts


def without_mask(k: Known) -> Tensor:
    """Recompute the weights without the mask, so that hidden scores are visible."""
    return (k.state.scores - k.state.masked_scores.logsumexp(-1, keepdim=True)).exp()


def of_unscaled_scores(k: Known) -> Tensor:
    """Recompute scores without the scale."""
    shown = k.state.masked_scores > -torch.inf
    raw = k.state.raw_scores.masked_fill(~shown, -torch.inf)
    return (raw - k.state.masked_scores.logsumexp(-1, keepdim=True)).exp()


def without_weights(k: Known, weights: Tensor, mean: Tensor) -> Tensor:
    """Return dP - D at the visible positions."""
    return (k.d_weights - mean) * (weights > 0)


def times_scale(query: int, key: int) -> Finish:
    """Multiply the gradients of queries and keys by other powers of the scale."""

    def finish(k: Known, weights: Tensor, d_scores: Tensor) -> QKVTensors:
        d_query, d_key, d_value = products(k, weights, d_scores)
        return d_query * k.scale ** (query - 1), d_key * k.scale ** (key - 1), d_value

    return finish


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
        "no_weights_in_backward",
        "In the backward dS lacks the factor P: it is dP − D.",
    ).simulated_by(with_backward(slope=without_weights)),
    define_rare_mistake(
        "no_scale_in_backward",
        "The gradient of queries, of keys, or of both is not multiplied by the scale.",
    ).simulated_by(
        with_backward(finish=times_scale(0, 0)),
        with_backward(finish=times_scale(0, 1)),
        with_backward(finish=times_scale(1, 0)),
    ),
    define_rare_mistake(
        "mask_missing_in_backward",
        "In the backward nothing is hidden: later tokens get weights, too.",
        needs=Capability.CAUSAL_OPTION,
    ).simulated_by(with_backward(weights=without_mask)),
    define_rare_mistake(
        "tiles_overwrite_gradients",
        "The gradients of queries, or of keys and values, come only from their last tile: tiles "
        "are not added up.",
    ).simulated_by(
        with_backward(finish=queries_of_last_tile(is_last_of_all)),
        with_backward(finish=queries_of_last_tile(is_last_seen)),
        with_backward(finish=keys_of_last_tile),
    ),
    define_rare_mistake(
        "unscaled_scores_in_backward",
        "The backward recomputes the scores without the scale.",
    ).simulated_by(with_backward(weights=of_unscaled_scores)),
)
