"""The tolerance of linear attention, whose weights are shares of products of positive features.

Let f = elu(q) + 1 and g = elu(k) + 1 be features, and s = Σ f g their products. An error e of q
moves f by at most e times its largest slope nearby, exp(q + e) or 1. The rounding errors of elu(q)
and of the sum are at most those of numbers near 1 + f: 2u (1 + f) in total. So products are off by

    D = (e_f g + f e_g + e_f e_g) / s

relative to themselves, and the output by Σ p D |v - o| over 1 - Σ p D: the sum that all products
are divided by has the same errors. The sums themselves, over tokens and features, in any order and
in a state that is rounded at each token, are off by 2 (√n + √d) u of their terms, none of which
cancel in the divisor: that is the arithmetic, twice.
"""

import math

import torch
from torch import Tensor

from headcheck.properties.bounds.precision import Precision
from headcheck.reference import MultiHeadResult, Variant, split_shared_heads

LARGEST_LOSS = 0.9
"""the largest error of the divisor, as a share of it; beyond this a bound says nothing"""


def bound_shares(
    exact: MultiHeadResult,
    errors: tuple[Tensor, Tensor],
    precision: Precision,
    variant: Variant,
) -> tuple[Tensor, Tensor]:
    """Return the relative errors of products of features, and of the sums over them.

    `errors` are those of queries and keys before they become features.
    """
    heads, (n, d) = exact.query.shape[-3], exact.key.shape[-2:]
    shared = split_shared_heads(exact.projected, heads)
    raw = (variant.place(t) for t in shared[:2])
    features = exact.query, exact.key
    query, key = (
        _bound_features(*each, precision) for each in zip(raw, errors, features, strict=True)
    )
    absolute = query @ exact.key.mT + exact.query @ key.mT + query @ key.mT
    relative = torch.where(exact.weights > 0, absolute / exact.scores, 0.0)
    lost = (exact.weights * relative).sum(-1, keepdim=True).clamp(max=LARGEST_LOSS)
    summed = 2 * (math.sqrt(n) + math.sqrt(d)) * precision.u + 3 * precision.u
    return relative / (1 - lost), torch.full_like(relative, 2 * summed)


def _bound_features(raw: Tensor, error: Tensor, features: Tensor, precision: Precision) -> Tensor:
    slope = torch.exp((raw + error).clamp(max=0))
    return error * slope + 2 * precision.u * (1 + features)


def find_slopes(features: Tensor) -> Tensor:
    """Return the slopes of elu(x) + 1, which are the features themselves below one."""
    return features.clamp(max=1)


def count_feature_roundings(exact: MultiHeadResult, length: int) -> float:
    """Return the relative error of features, in roundings.

    However small features are, they are rounded like numbers near 1; the rounding errors of their
    layer grow with their size.
    """
    features = torch.cat([exact.query.detach().flatten(), exact.key.detach().flatten()])
    return 4 / float(features.min()) + 2 * math.sqrt(length) * float(features.max())
