"""Mistakes in linear attention: wrong features, wrong divisors, or a softmax."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.pipeline import (
    CORRECT,
    PipelineState,
    QKVTensors,
    StepOverrides,
    map_qkv,
)
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


def scaled_before(power: float) -> Function:
    """Divide queries or keys by a power of their width before they become features."""
    return lambda t: elu_features(t / t.shape[-1] ** power)


def undivided(s: PipelineState) -> Tensor:
    return s.masked_scores


def divided_by(divisor: Callable[[PipelineState], Tensor]) -> Callable[[PipelineState], Tensor]:
    return lambda s: s.masked_scores / divisor(s)


def sum_keys(s: PipelineState) -> Tensor:
    """Return only the sum of the keys' features, over the visible tokens."""
    keys = s.key.sum(-1)[..., None, :].expand_as(s.scores)
    seen = keys if s.visible is None else keys * s.visible
    return seen.sum(-1, keepdim=True)


def plus(number: float) -> Callable[[PipelineState], Tensor]:
    return lambda s: s.masked_scores.sum(-1, keepdim=True) + number


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


SMALL = (1e-3, 1e-5, 1e-6, 1e-8, 1e-9)
"""the small numbers that people add to a divisor that may be 0"""

FEATURES = require(
    Capability.FEATURES,
    define_mistake(
        "softmax_of_scores",
        "The code computes ordinary attention, with a softmax; the features' products should be "
        "divided "
        "by their sum.",
    ).simulated_by(softmax_of_scores(0.5), softmax_of_scores(0.0)),
    define_mistake(
        "softmax_of_products",
        "The products of features go through a softmax; they should be divided by their sum.",
    ).simulated_by(softmax_of_products(0.0), softmax_of_products(0.5)),
    define_mistake(
        "shares_not_divided",
        "The weighted sum of the values is never divided: the divisor is missing.",
    ).simulated_by(normalise=undivided),
    define_mistake(
        "divided_by_the_count",
        "The divisor is the number of tokens, not the sum of the products of features.",
    ).simulated_by(
        normalise=divided_by(
            lambda s: (s.masked_scores != 0).sum(-1, keepdim=True).to(s.scores.dtype)
        )
    ),
    define_mistake(
        "divided_by_the_keys_alone",
        "The divisor is a sum of keys; it should be multiplied with the query.",
    ).simulated_by(normalise=divided_by(sum_keys)),
    define_mistake(
        "divisor_sees_the_future",
        "The divisor is a sum over all tokens, including later ones.",
    ).simulated_by(normalise=divided_by(lambda s: s.scores.sum(-1, keepdim=True))),
    define_mistake(
        "divisor_of_the_own_token",
        "The divisor is only the product with the token's own key, not the sum over all visible "
        "keys.",
    ).simulated_by(normalise=divided_by(lambda s: s.scores.diagonal(dim1=-2, dim2=-1)[..., None])),
    define_mistake(
        "keys_without_features",
        "The keys are used directly; they have to become features, too.",
    ).simulated_by(map=mapped_by(key=as_they_are)),
    define_mistake(
        "queries_without_features",
        "The queries are used directly; they have to become features, too.",
    ).simulated_by(map=mapped_by(query=as_they_are)),
    define_mistake(
        "no_features",
        "Queries and keys are used directly; they have to become features.",
    ).simulated_by(map=mapped_by(as_they_are, as_they_are)),
    define_mistake(
        "one_not_added",
        "The features are elu(x), without the 1: some are negative, and sums may be zero.",
    ).simulated_by(
        {"map": mapped_by(F.elu, F.elu)},
        {"map": mapped_by(key=F.elu)},
        {"map": mapped_by(query=F.elu)},
    ),
    define_mistake(
        "one_added_before_elu",
        "The 1 is added to x before the elu: that is elu(x + 1), and features are elu(x) + 1.",
        "elu:\\b1\\b",
    ).simulated_by(
        {"map": mapped_by(elu_of_sum, elu_of_sum)},
        {"map": mapped_by(key=elu_of_sum)},
        {"map": mapped_by(query=elu_of_sum)},
    ),
    define_mistake(
        "other_features",
        "The features of queries, of keys or of both use another function than elu(x) + 1.",
    ).simulated_by(
        *({"map": mapped_by(other, other)} for other in OTHERS),
        *({"map": mapped_by(query=other)} for other in OTHERS),
        *({"map": mapped_by(key=other)} for other in OTHERS),
        *(
            {"map": mapped_by(F.relu, F.relu), "normalise": divided_by(plus(number))}
            for number in SMALL
        ),
    ),
    define_mistake(
        "softmax_over_features",
        "Queries and keys go through a softmax of their own; features are elu(x) + 1.",
    ).simulated_by(
        {"map": mapped_by(softmax_over_width, softmax_over_width)},
    ),
    define_mistake(
        "values_as_features",
        "The values become features as well; they should stay unchanged.",
    ).simulated_by(map=lambda s: map_qkv(elu_features, s.halved)),
    define_mistake(
        "scaled_before_features",
        "Queries or keys are divided by the root of {width} before they become features.",
    ).simulated_by(
        {"map": mapped_by(query=scaled_before(0.5))},
        {"map": mapped_by(key=scaled_before(0.5))},
        {"map": mapped_by(scaled_before(0.5), scaled_before(0.5))},
        {"map": mapped_by(scaled_before(0.25), scaled_before(0.25))},
    ),
    define_mistake(
        "sums_transposed",
        "The matrix of sums is multiplied from the wrong side: the queries meet the values' axis.",
    ).simulated_by(mix=sums_transposed),
    define_rare_mistake(
        "number_in_divisor",
        "A number is added to the divisor: the weights sum to less than one.",
    ).simulated_by(*({"normalise": divided_by(plus(number))} for number in (1.0, *SMALL))),
)
