"""Faulty steps for sinks: a share that is too small or too large, or another head's sink."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from headcheck.properties.mistakes.pipeline import PipelineState, softmax_with_sinks

Change = Callable[[PipelineState, Tensor], Tensor]
"""changes the sinks of all heads"""


def _get_sinks(s: PipelineState) -> Tensor:
    if s.p.sinks is None:
        raise ValueError("there are no sinks")
    return s.p.sinks


def _weigh(s: PipelineState, sinks: Tensor) -> Tensor:
    """Return the weights of the keys, followed by the weights of the sinks."""
    return softmax_with_sinks(s.masked_scores, sinks)


def without_sinks(s: PipelineState) -> Tensor:
    return torch.softmax(s.masked_scores, dim=-1)


def with_changed_sinks(change: Change) -> Callable[[PipelineState], Tensor]:
    """Use other sinks than those of the heads."""
    return lambda s: _weigh(s, change(s, _get_sinks(s)))[..., :-1]


def renormalised(extra: float) -> Callable[[PipelineState], Tensor]:
    """Divide the weights by their sum, plus a number, after the sinks' weights are cut off."""

    def normalise(s: PipelineState) -> Tensor:
        kept = _weigh(s, _get_sinks(s))[..., :-1]
        return kept / (kept.sum(-1, keepdim=True) + extra)

    return normalise


def row_maximum(s: PipelineState) -> Tensor:
    return s.masked_scores.amax(-1, keepdim=True)


def cut_row_maximum(s: PipelineState) -> Tensor:
    """Let no gradient through to the maximum, which cancels."""
    return row_maximum(s).detach()


def with_denominator_plus(
    extra: Callable[[Tensor], Tensor], top: Callable[[PipelineState], Tensor] = row_maximum
) -> Callable[[PipelineState], Tensor]:
    """Add something other than the sinks' exponentials to the sum of the exponentials."""

    def normalise(s: PipelineState) -> Tensor:
        exponentials = (s.masked_scores - top(s)).exp()
        added = extra(_get_sinks(s)).view(-1, 1, 1)
        return exponentials / (exponentials.sum(-1, keepdim=True) + added)

    return normalise


def counted_for_every_key(s: PipelineState) -> Tensor:
    return _weigh(s, _get_sinks(s) + math.log(s.inputs.keys))[..., :-1]


def kept_in_place_of_first_key(s: PipelineState) -> Tensor:
    """Cut off the first column instead of the last: every weight moves to the previous key."""
    return _weigh(s, _get_sinks(s))[..., 1:]


def given_to(key: int) -> Callable[[PipelineState], Tensor]:
    """Give the sinks' share to one key."""

    def normalise(s: PipelineState) -> Tensor:
        weights = _weigh(s, _get_sinks(s))
        kept = weights[..., :-1].clone()
        kept[..., key] += weights[..., -1]
        return kept

    return normalise


def hidden_from_first_query(s: PipelineState) -> Tensor:
    weights = _weigh(s, _get_sinks(s))[..., :-1]
    return torch.cat([without_sinks(s)[..., :1, :], weights[..., 1:, :]], dim=-2)


def multiplied_by_sigmoids(s: PipelineState) -> Tensor:
    return without_sinks(s) * torch.sigmoid(_get_sinks(s)).view(-1, 1, 1)


def multiplied_by_what_is_lost(s: PipelineState) -> Tensor:
    return without_sinks(s) * _weigh(s, _get_sinks(s))[..., -1:]


def multiplied_by_what_is_left(s: PipelineState) -> Tensor:
    """Multiply the weights a second time by the share that the sinks leave."""
    weights = _weigh(s, _get_sinks(s))
    return weights[..., :-1] * (1 - weights[..., -1:])


def _weigh_again(s: PipelineState, weights: Tensor, hide: bool) -> Tensor:
    """Return weights as scores of a second softmax; hidden ones are hidden again, or are 0."""
    hidden = None if s.visible is None or not hide else ~s.visible
    return weights if hidden is None else weights.masked_fill(hidden, -math.inf)


def softmax_after_sinks(hide: bool) -> Callable[[PipelineState], Tensor]:
    """Take a softmax of the weights that remain after the sinks' weights are cut off."""

    def normalise(s: PipelineState) -> Tensor:
        kept = _weigh(s, _get_sinks(s))[..., :-1]
        return torch.softmax(_weigh_again(s, kept, hide), dim=-1)

    return normalise


def softmax_before_sinks(hide: bool) -> Callable[[PipelineState], Tensor]:
    """Take a softmax of the scores before the sinks are appended."""

    def normalise(s: PipelineState) -> Tensor:
        scores = _weigh_again(s, without_sinks(s), hide)
        return softmax_with_sinks(scores, _get_sinks(s))[..., :-1]

    return normalise


def softmax_twice_with_sinks(hide: bool) -> Callable[[PipelineState], Tensor]:
    """Take two softmaxes, one after the other, of the scores and the sinks."""

    def normalise(s: PipelineState) -> Tensor:
        weights = _weigh(s, _get_sinks(s))
        again = _weigh_again(s, weights[..., :-1], hide)
        return torch.softmax(torch.cat([again, weights[..., -1:]], dim=-1), dim=-1)[..., :-1]

    return normalise


def beside(join: Callable[[Tensor, Tensor], Tensor]) -> Callable[[PipelineState], Tensor]:
    """Combine the weights of a softmax with sinks and of a softmax without sinks."""
    return lambda s: join(_weigh(s, _get_sinks(s))[..., :-1], without_sinks(s))


def less_the_share_of_sinks(s: PipelineState) -> Tensor:
    return without_sinks(s) - _weigh(s, _get_sinks(s))[..., -1:]


def added_to_weights(s: PipelineState) -> Tensor:
    return without_sinks(s) + _get_sinks(s).view(-1, 1, 1)


def cut(s: PipelineState) -> Tensor:
    """Let no gradient through to the sinks."""
    return _weigh(s, _get_sinks(s).detach())[..., :-1]
