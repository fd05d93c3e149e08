"""The tolerance of queries, keys and values before they are compared and averaged.

Their errors come from rounding in layers, norms and rotations; see `properties.tolerance`.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from headcheck.properties.precision import Precision
from headcheck.reference import (
    MultiHeadResult,
    Parameters,
    Variant,
    append_beside,
    linear,
    project_beside,
    rotary_angles,
    split_maps,
    split_shared_heads,
)


def bound_linear_error(
    x: Tensor, weight: Tensor | None, result: Tensor, precision: Precision
) -> Tensor:
    """Bound the rounding error of x Wᵀ + b.

    Kernels start the sum with the bias, so every partial sum may be as large as the result.
    """
    if weight is None:
        return torch.zeros_like(result)
    terms = x.abs() @ weight.abs().mT + result.abs()
    accumulated = 2 * math.sqrt(x.shape[-1]) * precision.ua * terms
    return accumulated + 2 * precision.u * result.abs() + x.shape[-1] * precision.underflow


def bound_normed_error(
    t: Tensor,
    error: Tensor,
    gain: Tensor | None,
    shift: Tensor | None,
    variant: Variant,
    precision: Precision,
) -> Tensor:
    """Bound the error of normed queries or keys, from their values and errors before the norm.

    With r one over the root of the mean square and y = t r, an error e of t moves r by at most r³
    mean(|t| e), so y by r (e + |y| mean(|y| e)). The number r itself is rounded, and sums d
    squares. A mean that is subtracted first adds the errors of all numbers and its own rounding
    error.
    """
    if not variant.norm:
        return error
    growth = 2 * math.sqrt(t.shape[-1]) * precision.ua
    if variant.norm == "layer":
        centred = t - t.mean(-1, keepdim=True)
        size = t.abs().mean(-1, keepdim=True)
        error = error + error.mean(-1, keepdim=True) + (growth + precision.u) * size
        t, error = centred, error + precision.u * centred.abs()
    r = variant.measure(t)
    y = t * r
    moved = r * error + y.abs() * (y.abs() * r * error).mean(-1, keepdim=True)
    moved = moved + y.abs() * (growth + 4 * precision.u)
    factor = 1.0 if gain is None else (variant.gain_from + gain).abs()
    normed = variant.normalise(t, gain, shift).abs()
    return moved * factor + precision.u * (2 * factor * y.abs() + normed)


def bound_turning(t: Tensor, variant: Variant) -> Tensor:
    """Bound the size of queries or keys after rotation, given a bound before rotation."""
    if not variant.rotary:
        return t
    cos, sin = variant.make_tables(t)
    return t.abs() * cos.abs() + variant.swap_pairs(t).abs() * sin.abs()


def bound_angles(t: Tensor, variant: Variant, rounding: float) -> Tensor:
    """Bound the error of each angle; the error from base^-e grows with e and with the position.

    Angles are computed in float32 or better, as they have to be: 257 is 256 in bfloat16.
    """
    width = variant.count_turned(t)
    exponent = torch.arange(0, width, 2, dtype=t.dtype) / width
    relative = torch.where(exponent > 0, 4 + exponent * math.log(variant.base), 0.0)
    errors = rounding * relative * rotary_angles(t.shape[-2], width, variant.base, t)
    return variant.arrange(torch.cat([errors, errors], dim=-1), t, 0.0)


def bound_placed_error(t: Tensor, error: Tensor, variant: Variant, precision: Precision) -> Tensor:
    """Bound the error of queries or keys after rotation, given their values and errors before.

    Rotation keeps lengths, so the caller may pass the queries or keys after rotation.
    """
    if not variant.rotary:
        return error
    size = t.abs() + variant.swap_pairs(t).abs()
    tables = precision.u + precision.ua + bound_angles(t, variant, precision.ua)
    return bound_turning(error, variant) + 2 * size * (tables + 2 * precision.u)


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
        query_error = bound_normed_error(q, query_error, p.gain_q, p.shift_q, variant, precision)
        key_error = bound_normed_error(k, key_error, p.gain_k, p.shift_k, variant, precision)
    if (beside := project_beside(x, p, keys_from)) is not None:
        asked = bound_linear_error(x, p.W_qr, beside[0], precision)
        rounded = asked, bound_linear_error(keys_from, p.W_kr, beside[1], precision)
        query_error, key_error = append_beside(query_error, key_error, rounded)
    query_error = bound_placed_error(exact.query, query_error, variant, precision)
    key_error = bound_placed_error(exact.key, key_error, variant, precision)
    if p.lambdas is not None:
        query_error, key_error = split_maps(query_error), split_maps(key_error)
    return query_error, key_error, value_error


def bound_read_error(
    x: Tensor, weight: Tensor, result: Tensor, parameters: Parameters, precision: Precision
) -> Tensor:
    """Bound the rounding error of keys or values, which are made of tokens or of their latents.

    An implementation may multiply queries with the layer of keys first, and averages of latents
    with the layer of values last. Then the rounding errors of scores and averages grow with the
    latents, even if these cancel in the layers.
    """
    if parameters.W_down is None:
        return bound_linear_error(x, weight, result, precision)
    latent = linear(x, parameters.W_down)
    sums = 2 * math.sqrt(x.shape[-2]) * precision.ua
    error = bound_linear_error(x, parameters.W_down, latent, precision)
    error = error + (2 * precision.u + sums) * latent.abs()
    return error @ weight.abs().mT + bound_linear_error(latent, weight, result, precision)
