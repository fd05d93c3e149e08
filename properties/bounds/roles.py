"""The errors of queries, keys and values before they are compared and averaged.

Their errors come from rounding in layers, norms and rotations; see `properties.bounds.attention`.
"""

import torch
from torch import Tensor

from headcheck.properties.bounds.layers import bound_linear_error, bound_read_error
from headcheck.properties.bounds.norms import bound_normed_error
from headcheck.properties.bounds.positions import bound_placed_error
from headcheck.properties.bounds.precision import RoundedAttention
from headcheck.reference import (
    append_beside,
    project_beside,
    share_heads,
    split_heads,
    split_maps,
    split_shared_heads,
)


def bound_role_errors(of: RoundedAttention) -> tuple[Tensor, Tensor, Tensor]:
    """Bound the errors of queries, keys and values before they are compared and averaged."""
    x, p, exact, precision, variant = of.x, of.p, of.exact, of.precision, of.variant
    heads, (q, k, v), (keys_from, values_from) = exact.query.shape[-3], exact.projected, of.read
    projected = (
        bound_linear_error(x, p.W_q, q, precision),
        bound_read_error(keys_from, p.W_k, k, p, precision),
        bound_read_error(values_from, p.W_v, v, p, precision),
    )
    if (error := of.error) is not None:
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


def bound_value_error(of: RoundedAttention) -> Tensor:
    """Bound the errors of values alone, made of exact tokens; heads that share values have them."""
    heads, _, width = of.exact.value.shape[-3:]
    error = bound_read_error(of.read[1], of.p.W_v, of.exact.projected[2], of.p, of.precision)
    return share_heads(split_heads(error, max(1, error.shape[-1] // width)), heads)
