"""Faulty steps for two maps that are not split, weighted or subtracted as they should be."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.properties.mistakes.pipeline import (
    CORRECT,
    PipelineState,
    QKVTensors,
    get_maps,
    split_heads,
    split_maps,
)

START = 0.8
"""the initial value of lambdas, which people use in place of the parameter"""
Weigh = Callable[[Tensor, Tensor, Tensor], Tensor]
"""computes weights from the first map, the second map, and lambdas of a matching shape"""


def get_lambdas(s: PipelineState) -> Tensor:
    """Return the lambdas of all heads, in a shape that can multiply maps."""
    if s.p.lambdas is None:
        raise ValueError("there are no lambdas")
    return s.p.lambdas[:, None, None]


def weighed_by(weigh: Weigh) -> Callable[[PipelineState], Tensor]:
    """Compute the weights from both maps and lambdas in another way."""
    return lambda s: weigh(*get_maps(s), get_lambdas(s))


def with_changed_lambdas(change: Callable[[Tensor], Tensor]) -> Callable[[PipelineState], Tensor]:
    """Use other lambdas than those of the heads."""
    return weighed_by(lambda first, second, lambdas: first - change(lambdas) * second)


def renormalised(s: PipelineState) -> Tensor:
    weights = CORRECT.subtract(s)
    return weights / weights.sum(-1, keepdim=True)


def cut_off_below_zero(s: PipelineState) -> Tensor:
    return CORRECT.subtract(s).relu()


def softmax_again(s: PipelineState) -> Tensor:
    return torch.softmax(_hide(s, CORRECT.subtract(s)), dim=-1)


def softmax_of_subtracted_scores(s: PipelineState) -> Tensor:
    first, second = s.scores[:, 0::2], s.scores[:, 1::2]
    return torch.softmax(_hide(s, first - get_lambdas(s) * second), dim=-1)


def _hide(s: PipelineState, t: Tensor) -> Tensor:
    return t if s.visible is None else t.masked_fill(~s.visible, -torch.inf)


def scaled_as_whole_heads(s: PipelineState) -> Tensor:
    return s.raw_scores / math.sqrt(s.inputs.head_dim)


def second_map_seeing_all(s: PipelineState) -> Tensor:
    hidden = CORRECT.hide(s).clone()
    hidden[:, 1::2] = s.scores[:, 1::2]
    return hidden


def neighbours_apart(s: PipelineState) -> QKVTensors:
    """Use every other column of a head for the first map."""
    query, key, value = s.shared
    return _take_turns(query), _take_turns(key), value


def _take_turns(t: Tensor) -> Tensor:
    pairs: Tensor = t.unflatten(-1, (-1, 2))
    return pairs.movedim(-1, 2).flatten(1, 2)


def all_columns_halved(s: PipelineState) -> QKVTensors:
    """Split the first half of all columns among the first maps of all heads."""
    query, key, _ = s.normed_whole
    return _halve_columns(query, s), _halve_columns(key, s), s.shared[2]


def _halve_columns(t: Tensor, s: PipelineState) -> Tensor:
    heads = s.inputs.heads
    return torch.stack([split_heads(half, heads) for half in t.chunk(2, dim=-1)], 2).flatten(1, 2)


def with_halves(
    queries: tuple[int, int], keys: tuple[int, int]
) -> Callable[[PipelineState], QKVTensors]:
    """Compute both maps from these halves of queries and keys."""

    def halve(s: PipelineState) -> QKVTensors:
        query, key, value = s.shared
        return _choose(query, queries), _choose(key, keys), value

    return halve


def _choose(t: Tensor, halves: tuple[int, int]) -> Tensor:
    both: Tensor = split_maps(t).unflatten(1, (-1, 2))
    return both[:, :, list(halves)].flatten(1, 2)


def shrunk(s: PipelineState) -> Tensor:
    return CORRECT.merge(s) * (1 - START)


def normalised(eps: float | None, factor: float) -> Callable[[PipelineState], Tensor]:
    """Divide each head's output by its root mean square, and multiply it by a factor."""
    return lambda s: factor * F.rms_norm(CORRECT.mix(s), (s.value.shape[-1],), eps=eps)


def cut(s: PipelineState) -> Tensor:
    """Let no gradient through to the lambdas."""
    first, second = get_maps(s)
    return first - get_lambdas(s).detach() * second
