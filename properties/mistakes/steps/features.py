"""Faulty steps: other features than elu(x) + 1, and wrong or missing divisors."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.properties.mistakes.pipeline import CORRECT, PipelineState, QKVTensors, StepOverrides
from headcheck.reference.variant import elu_features

Function = Callable[[Tensor], Tensor]


def mapped_by(
    query: Function = elu_features, key: Function = elu_features
) -> Callable[[PipelineState], QKVTensors]:
    """Use other features for queries, for keys or for both."""
    return lambda s: (query(s.halved[0]), key(s.halved[1]), s.halved[2])


def as_they_are(t: Tensor) -> Tensor:
    return t


def elu_of_sum(t: Tensor) -> Tensor:
    return F.elu(t + 1)


OTHERS: tuple[Function, ...] = (
    F.relu,
    torch.exp,
    F.softplus,
    torch.sigmoid,
    lambda t: F.relu(t) + 1e-6,
    lambda t: F.relu(t) + 1e-3,
    lambda t: F.gelu(t) + 1,
    lambda t: F.elu(t + 1) + 1,
    lambda t: elu_features(elu_features(t)),
    torch.square,
    torch.abs,
)
"""functions that people use instead of elu(x) + 1; they are rarely negative"""


def values_too(s: PipelineState) -> QKVTensors:
    return elu_features(s.halved[0]), elu_features(s.halved[1]), elu_features(s.halved[2])


def scaled_before(power: float) -> Function:
    """Divide queries or keys by a power of their width before they become features."""
    return lambda t: elu_features(t / t.shape[-1] ** power)


def undivided(s: PipelineState) -> Tensor:
    return s.masked_scores


def divided_by(divisor: Callable[[PipelineState], Tensor]) -> Callable[[PipelineState], Tensor]:
    return lambda s: s.masked_scores / divisor(s)


def count_keys(s: PipelineState) -> Tensor:
    return (s.masked_scores != 0).sum(-1, keepdim=True).to(s.scores.dtype)


def sum_keys(s: PipelineState) -> Tensor:
    """Return only the sum of the keys' features, over the visible tokens."""
    keys = s.key.sum(-1)[..., None, :].expand_as(s.scores)
    seen = keys if s.visible is None else keys * s.visible
    return seen.sum(-1, keepdim=True)


def sum_raw(*, query: bool = True, key: bool = True) -> Callable[[PipelineState], Tensor]:
    """Sum products in which queries, keys or both are used without features."""

    def divisor(s: PipelineState) -> Tensor:
        q, k = s.halved[0] if query else s.query, s.halved[1] if key else s.key
        products = q @ k.mT
        seen = products if s.visible is None else products * s.visible
        return seen.sum(-1, keepdim=True)

    return divisor


def sum_all(s: PipelineState) -> Tensor:
    return s.scores.sum(-1, keepdim=True)


def take_own(s: PipelineState) -> Tensor:
    return s.scores.diagonal(dim1=-2, dim2=-1)[..., None]


def plus(number: float) -> Callable[[PipelineState], Tensor]:
    return lambda s: s.masked_scores.sum(-1, keepdim=True) + number


def divided_by_cut_sum(s: PipelineState) -> Tensor:
    return s.masked_scores / s.masked_scores.sum(-1, keepdim=True).detach()


def softmax_of_products(scale: float) -> StepOverrides:
    """Take a softmax of products of features, divided by a power of the width."""

    def normalise(s: PipelineState) -> Tensor:
        scores = s.scores / s.inputs.head_dim**scale
        return torch.softmax(_hide(s, scores), dim=-1)

    return {"normalise": normalise}


def softmax_of_scores(scale: float) -> StepOverrides:
    """Use ordinary attention, with scores that are divided by a power of the width."""
    return {**softmax_of_products(scale), "map": mapped_by(as_they_are, as_they_are)}


def _hide(s: PipelineState, t: Tensor) -> Tensor:
    return t if s.visible is None else t.masked_fill(~s.visible, -math.inf)


def sums_transposed(s: PipelineState) -> Tensor:
    """Multiply the queries by the sums' axis of values, so that the result has the axis of keys."""
    seen = torch.ones_like(s.scores) if s.visible is None else s.visible.to(s.scores.dtype)
    mixed = (s.query @ s.value.mT * seen) @ s.key
    return mixed / CORRECT.hide(s).sum(-1, keepdim=True)


def softmax_over_width(t: Tensor) -> Tensor:
    return F.softmax(t, dim=-1)
