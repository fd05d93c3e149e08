"""The errors of queries, keys and values before they are compared and averaged.

Their errors come from rounding in layers, norms and rotations; see `properties.bounds.attention`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from headcheck.properties.bounds.layers import bound_linear_error, bound_read_error
from headcheck.properties.bounds.norms import bound_normed_error
from headcheck.properties.bounds.positions import bound_placed_error
from headcheck.properties.bounds.precision import Precision
from headcheck.reference import (
    MultiHeadResult,
    Parameters,
    Variant,
    append_beside,
    project_beside,
    share_heads,
    split_heads,
    split_maps,
    split_shared_heads,
)


def bound_role_errors(
    x: Tensor,
    parameters: Parameters,
    exact: MultiHeadResult,
    precision: Precision,
    others: Sequence[Tensor],
    variant: Variant,
    error: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Bound the errors of queries, keys and values before they are compared and averaged.

    `error` is the error of the tokens, if these are themselves the result of a computation.
    """
    heads, p, (q, k, v) = exact.query.shape[-3], parameters, exact.projected
    keys_from, values_from = (others[0], others[-1]) if others else (x, x)
    projected = (
        bound_linear_error(x, p.W_q, q, precision),
        bound_read_error(keys_from, p.W_k, k, p, precision),
        bound_read_error(values_from, p.W_v, v, p, precision),
    )
    if error is not None:
        weights = p.W_q, p.W_k, p.W_v
        inherited = (error @ weight.abs().mT for weight in weights)
        projected = tuple(map(torch.add, projected, inherited))  # type: ignore[assignment]
    query_error, key_error, value_error = split_shared_heads(projected, heads)
    if variant.norm:
        q, k, _ = split_shared_heads(exact.projected, heads)
        query_error = bound_normed_error(q, query_error, *p.get_norm("q"), variant, precision)
        key_error = bound_normed_error(k, key_error, *p.get_norm("k"), variant, precision)
    if (beside := project_beside(x, p, keys_from)) is not None:
        asked = bound_linear_error(x, p.W_qr, beside[0], precision)
        rounded = asked, bound_linear_error(keys_from, p.W_kr, beside[1], precision)
        query_error, key_error = append_beside(query_error, key_error, rounded)
    if p.lambdas is not None:
        query_error, key_error = split_maps(query_error), split_maps(key_error)
    last = variant.stand_last(exact.query.shape[-2], exact.key.shape[-2])
    query_error = bound_placed_error(exact.query, query_error, last, precision)
    key_error = bound_placed_error(exact.key, key_error, variant, precision)
    return query_error, key_error, value_error


def bound_value_error(
    values_from: Tensor, parameters: Parameters, exact: MultiHeadResult, precision: Precision
) -> Tensor:
    """Bound the errors of values alone, made of exact tokens; heads that share values have them."""
    heads, _, width = exact.value.shape[-3:]
    given = values_from, parameters.W_v, exact.projected[2], parameters, precision
    error = bound_read_error(*given)
    return share_heads(split_heads(error, max(1, error.shape[-1] // width)), heads)
