"""The tolerance of a correct attention, and the theory behind every comparison.

Let u be the unit roundoff of the dtype, ua = min(u, 2^-24) that of its accumulators, s the scaled
scores, p the weights, o the output before the last projection, all exact, and

    A  = scale |q| |k|ᵀ        A2 = scale √(q² (k²)ᵀ)

A computed score is off by at most (to first order, accumulations growing like √d as they do in
practice, Higham & Mary 2019)

    D = u (2|s| + |s - max s|) + 2u A2 + 2√d ua A + what the errors of q and k contribute

and, because do = Cov_p(ds, v), the output is off by at most

    B = Σ_j p expm1(D) |v - o|                                 the range of v, not its offset
      + Σ_j p (3u + 2√n ua + u(|lse| + |s - lse|)) |v| + u|o|  softmax and rounding
      + n (tiny max|v| + underflow)                            flush to zero

where u|s - max| is the error of exp (Blanchard, Higham & Higham 2021) and u|lse| that of the
division-free form exp(s - lse), which some correct implementations use. An answer is accepted
within K·B in every element, K = 4: the growth is probabilistic, and over 129,606 runs of 19
correct algorithms (n to 1024, d to 256, scores to 512, four dtypes) the largest error was 1.11 B,
while every one of 15 wrong algorithms was beyond 10⁹ B in float64. `tests/properties` repeats a
part of that experiment.
"""

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from headcheck.properties.bounds.features import bound_shares
from headcheck.properties.bounds.head_norms import bound_head_norm_error
from headcheck.properties.bounds.layers import bound_gated_error, bound_linear_error
from headcheck.properties.bounds.maps import bound_difference
from headcheck.properties.bounds.parts import bound_adjustments
from headcheck.properties.bounds.positions import bound_placed_error
from headcheck.properties.bounds.precision import PRECISIONS as PRECISIONS
from headcheck.properties.bounds.precision import Precision as Precision
from headcheck.properties.bounds.precision import RoundedAttention as RoundedAttention
from headcheck.properties.bounds.roles import bound_role_errors, bound_value_error
from headcheck.properties.bounds.sinks import seat_one_more, seat_sinks, seat_visible
from headcheck.reference import PLAIN, MultiHeadResult, Parameters, Variant

K = 4.0
FAR = 50.0
"""errors of scores beyond which only their order of magnitude counts"""
LONG_SEQUENCE = 128
ROWS_AT_ONCE = 1 << 22  # elements of the largest intermediate tensor, 32 MiB of float64

Bounds = tuple[Float[Tensor, "*batch tokens d_out"], Float[Tensor, "*batch heads tokens keys"]]
"""a bound of each element of the output, and of the attention weights"""


def bound_score_error(
    exact: MultiHeadResult,
    query_error: Tensor,
    key_error: Tensor,
    scale: float,
    precision: Precision,
    may_attend: Tensor | None,
    variant: Variant = PLAIN,
) -> Float[Tensor, "*batch heads q k"]:
    """Return D of the theory above; zero where a query may not attend."""
    query, key, u = exact.query, exact.key, precision.u
    absolute = scale * query.abs() @ key.abs().mT
    quadratic = scale * ((query**2) @ (key**2).mT).sqrt()
    scores = exact.scores
    visible = scores if may_attend is None else scores.masked_fill(~may_attend, -math.inf)
    from_top = (scores - visible.amax(-1, keepdim=True)).abs()
    inherited = scale * (query_error @ key.abs().mT + query.abs() @ key_error.mT)
    error = u * (2 * scores.abs() + from_top) + 2 * u * quadratic + inherited
    error = error + 2 * math.sqrt(query.shape[-1]) * precision.ua * absolute
    error = error + bound_adjustments(exact, absolute, variant, precision)
    # A row that may attend to nothing has no largest score.
    return torch.where((exact.softmaxes > 0) | (visible.isfinite() & error.isfinite()), error, 0.0)


def move_weights(weights: Tensor, scores: Tensor, errors: Tensor) -> Tensor:
    """Return how far errors D of the scores move weights: p (exp(D) - 1), at most exp(50).

    In 16 bits the errors of huge scores may be thousands: then a weight that is 0 in float64 may be
    one half. Hidden scores have no error.
    """
    near = weights * torch.expm1(errors.clamp(max=FAR))
    if bool((errors <= FAR).all()):
        return near
    shown = scores.masked_fill((weights == 0) & (errors == 0), -math.inf)
    logs = (shown - shown.logsumexp(-1, keepdim=True)).nan_to_num(nan=-math.inf)
    return torch.where(errors > FAR, torch.exp((logs + errors).clamp(max=FAR)), near)


def bound_context_error(
    exact: MultiHeadResult,
    errors: Tensor,
    arithmetic: Tensor,
    value_error: Tensor,
    precision: Precision,
) -> Float[Tensor, "*batch heads q d"]:
    """Return B of the theory above for each softmax, before the heads are merged."""
    weights, value = exact.softmaxes, exact.value
    context = weights @ value
    moved = move_weights(weights, exact.scores, errors)
    arithmetic = weights * arithmetic
    tiny = value.shape[-2] * (precision.tiny * value.abs().amax() + precision.underflow)
    bound = compute_spread(moved, value, context) + arithmetic @ value.abs()
    return bound + precision.u * context.abs() + weights @ value_error + tiny


def bound_softmax_error(
    exact: MultiHeadResult, precision: Precision
) -> Float[Tensor, "*batch heads q k"]:
    """Bound the relative error of the softmax's own arithmetic."""
    seen = exact.softmaxes > 0
    visible = exact.scores.masked_fill(~seen, -math.inf)
    lse = visible.logsumexp(-1, keepdim=True)
    shift = lse.abs() + (exact.scores - lse).abs()
    constant = count_sum_roundings(exact, precision)
    return torch.where(seen, constant + precision.u * shift, 0.0)


def count_sum_roundings(exact: MultiHeadResult, precision: Precision) -> float:
    """Return the relative error of a sum over all keys and of three more roundings."""
    return 3 * precision.u + 2 * math.sqrt(exact.key.shape[-2]) * precision.ua


def compute_spread(
    moved: Float[Tensor, "*batch q k"],
    value: Float[Tensor, "*batch k d"],
    centre: Float[Tensor, "*batch q d"],
) -> Float[Tensor, "*batch q d"]:
    """Return Σ_j moved_ij |value_jc - centre_ic|, computed a few rows at a time.

    For long sequences |value| + |centre| replaces the difference, which is n times cheaper.
    """
    if value.shape[-2] > LONG_SEQUENCE:
        return moved @ value.abs() + moved.sum(-1, keepdim=True) * centre.abs()
    rows = max(1, ROWS_AT_ONCE // max(1, value.numel()))
    pieces = [
        (m.unsqueeze(-1) * (value.unsqueeze(-3) - c.unsqueeze(-2)).abs()).sum(-2)
        for m, c in zip(moved.split(rows, dim=-2), centre.split(rows, dim=-2), strict=True)
    ]
    return torch.cat(pieces, dim=-2)


def compute_bounds(of: RoundedAttention) -> Bounds:
    """Return K·B for the output of a whole module, and the bound of its attention weights."""
    output, weights = bound_attention(of)
    return K * output, K * weights


def bound_attention(of: RoundedAttention) -> Bounds:
    """Return B for the output of attention, and the bound of its weights."""
    query_error, key_error, value_error = bound_role_errors(of)
    p, exact, precision, may_attend = of.p, of.exact, of.precision, of.may_attend
    if p.sinks is not None:
        exact = seat_sinks(exact, p.sinks)
        key_error, value_error = seat_one_more(key_error), seat_one_more(value_error)
        may_attend = None if may_attend is None else seat_visible(may_attend)
    if of.variant.features:
        errors, arithmetic = bound_shares(exact, (query_error, key_error), precision, of.variant)
    else:
        given = exact, query_error, key_error, of.scale, precision, may_attend, of.variant
        errors, arithmetic = bound_score_error(*given), bound_softmax_error(exact, precision)
    context = bound_context_error(exact, errors, arithmetic, value_error, precision)
    output = _propagate(context, replace(of, exact=exact))
    weights = bound_weights_error(exact, errors, arithmetic, precision)
    weights = bound_difference(weights, exact.softmaxes, p.lambdas, precision)
    return output, weights if p.sinks is None else weights[..., :-1]


def bound_least(of: RoundedAttention) -> Bounds:
    """Return parts of the two bounds of `compute_bounds` that cost little.

    They count the errors of values, of the sums in the softmax, and of all that follows, but not
    those of scores.
    """
    exact, precision = of.exact, of.precision
    constant = 0.0 if of.variant.features else count_sum_roundings(exact, precision)
    weights = constant * exact.softmaxes
    context = weights @ exact.value.abs() + exact.softmaxes @ bound_value_error(of)
    output = _propagate(context, of)
    weights = bound_difference(weights, exact.softmaxes, of.p.lambdas, precision)
    return K * output, K * weights


def _propagate(context: Tensor, of: RoundedAttention) -> Tensor:
    """Propagate the errors of what each softmax averages to the output."""
    exact, precision = of.exact, of.precision
    size = exact.softmaxes @ exact.value.abs()
    context = bound_difference(context, size, of.p.lambdas, precision)
    merged = bound_gated_error(bound_head_norm_error(context, of), of)
    output = propagate_through_output(merged, of.p, exact, precision)
    # Adding tokens rounds their sum, and taking them off again rounds the output.
    added = of.x[..., : output.shape[-1]].abs()  # tokens may be wider than all heads
    rounded = precision.u * (added + 2 * exact.output.abs()) if of.variant.adds_tokens else 0.0
    return output + rounded


def bound_logsumexp(
    exact: MultiHeadResult, scale: float, precision: Precision, variant: Variant = PLAIN
) -> Float[Tensor, "*batch heads q"]:
    """Return K times the bound of log Σ exp s, for queries and keys that are inputs themselves.

    Errors D of the scores move it by at most log Σ p exp(D). The sums have the same errors as in a
    softmax, and their logarithm is rounded, whether it is added to the maximum or not.
    """
    query_error, key_error = (
        bound_placed_error(t, torch.zeros_like(t), variant, precision)
        for t in (exact.query, exact.key)
    )
    errors = bound_score_error(exact, query_error, key_error, scale, precision, None, variant)
    moved = move_weights(exact.weights, exact.scores, errors).sum(-1).log1p()
    lse, largest = exact.logsumexp, exact.scores.amax(-1)
    summed = 3 * precision.u + 2 * math.sqrt(exact.key.shape[-2]) * precision.ua
    rounded = precision.u * (3 * lse.abs() + 2 * largest.abs() + 2 * (lse - largest))
    return K * (moved + summed + rounded)


def propagate_through_output(
    context: Tensor, parameters: Parameters, exact: MultiHeadResult, precision: Precision
) -> Tensor:
    """Propagate the error of the merged heads through the output projection, if there is one."""
    if parameters.W_o is None:
        return context
    own = bound_linear_error(exact.context, parameters.W_o, exact.output, precision)
    return context @ parameters.W_o.abs().mT + own


def bound_weights_error(
    exact: MultiHeadResult, errors: Tensor, arithmetic: Tensor, precision: Precision
) -> Tensor:
    """Bound the error of single weights: dp = p (ds - Σ p ds), and the softmax's arithmetic."""
    moved = move_weights(exact.softmaxes, exact.scores, errors)
    common = moved.sum(-1, keepdim=True)
    own = moved + exact.softmaxes * (common + arithmetic)
    return own + exact.softmaxes.shape[-1] * max(precision.tiny, 2.0**-1022)
