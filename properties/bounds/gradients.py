"""The exact gradients of a case, and their tolerances.

Every gradient is a sum of terms. The rounding errors of a correct implementation are proportional
to the sums of their absolute values, however much the terms cancel: `compute_absolute_gradients`
computes these sums by applying the chain rule of attention to the absolute values of all numbers.
Over nine correct algorithms in float32 the largest error was 0.15 of the tolerance, in bfloat16
0.10.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from headcheck.properties.bounds.absolute_gradients import Loss as Loss
from headcheck.properties.bounds.absolute_gradients import (
    compute_absolute_gradients,
    leave_feed_forward,
    leave_norm_of_tokens,
    make_absolute_block,
)
from headcheck.properties.bounds.attention import K
from headcheck.properties.bounds.features import count_feature_roundings
from headcheck.properties.bounds.oracle import (
    get_precisions,
    get_scale,
    hash_parameters,
    hash_tensors,
)
from headcheck.properties.bounds.parts import GROWTHS, GrowthOf
from headcheck.properties.bounds.positions import bound_turning
from headcheck.properties.bounds.sinks import seat_sinks
from headcheck.properties.bounds.tolerance import Tolerance
from headcheck.properties.contracts.contract import Capability, Contract, Returns
from headcheck.properties.contracts.variant import get_variant
from headcheck.properties.sized_cache import SizedCache
from headcheck.properties.terms.case import Case
from headcheck.reference import (
    PLAIN,
    MultiHeadResult,
    Parameters,
    Variant,
    linear,
    merge_heads,
    multi_head_attention,
    project,
    split_heads,
    split_shared_heads,
    transformer_block,
)


@dataclass(frozen=True, eq=False)
class ExactGradients:
    """The oracle's gradients of a loss, and the sums of the absolute values of their terms."""

    values: dict[str, Tensor]
    scales: dict[str, Tensor]
    growth: float
    dtype: str
    uncertain: Mapping[str, Tensor] = field(default_factory=dict)
    """the extra tolerance of each gradient if it is not known which weights dropout kept"""

    def compute_tolerance(self, name: str) -> Tolerance:
        """Return the tolerance of the gradient with this name."""
        scale = self.scales[name] + 1e-30
        limits = [K * p.u * self.growth * scale for p in get_precisions(self.dtype)]
        lost = self.uncertain.get(name)
        return Tolerance(*(limits if lost is None else [limit + lost for limit in limits]))


ROLES = ("query", "key", "value")
"""the inputs of a function that takes queries, keys and values directly"""
MAX_CACHED_NUMEL = 1 << 21
"""the most numbers on which the losses of all cached results may depend"""
_CACHE = SizedCache[ExactGradients](MAX_CACHED_NUMEL)


def compute_gradients(
    contract: Contract,
    case: Case,
    x: Tensor,
    parameters: Parameters,
    may_attend: Tensor | None,
    loss: Loss,
) -> ExactGradients:
    """Return the oracle's gradients in float64. Cached: all submissions get the same queries.

    Dropout also often keeps the same weights, because all submissions draw from the same seed.
    """
    content = hash_tensors(x, may_attend, loss.cotangent, loss.kept), hash_parameters(parameters)
    asked = contract.returns, contract.has(Capability.ATTENTION)
    family = *asked, get_scale(contract, case), get_variant(contract, case)
    key = (*family, case.heads, case.dtype, case.tokens, loss.output, content)
    return _CACHE.get_or_make(
        key,
        lambda: _compute_gradients(contract, case, x, parameters, may_attend, loss),
        lambda _: x.numel() + sum(tensor.numel() for _, tensor in parameters.items()),
    )


def _compute_gradients(
    contract: Contract,
    case: Case,
    x: Tensor,
    parameters: Parameters,
    may_attend: Tensor | None,
    loss: Loss,
) -> ExactGradients:
    leaves = {"x": x, **dict(parameters.items())}
    leaves = {name: tensor.detach().clone().requires_grad_() for name, tensor in leaves.items()}
    moved = Parameters(**{name: leaf for name, leaf in leaves.items() if name != "x"})
    scale, variant = get_scale(contract, case), get_variant(contract, case)
    if variant.block is not None:
        return _compute_gradients_of_block(contract, case, leaves, moved, may_attend, loss)
    with torch.enable_grad():
        exact = multi_head_attention(
            leaves["x"], moved, case.heads, may_attend, scale, loss.kept, variant=variant
        )
        total = (_select_output(contract, exact, leaves["x"], moved, loss) * loss.cotangent).sum()
        values = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
    scales = compute_absolute_gradients(contract, case, x, parameters, exact, loss)
    if variant.adds_tokens and loss.cotangent.shape[:-1] == x.shape[:-1]:
        beyond = x.shape[-1] - loss.cotangent.shape[-1]  # tokens may be wider than all heads
        added = torch.nn.functional.pad(loss.cotangent.abs(), (0, beyond))
        scales = {**scales, "x": scales["x"] + added}
    growth = compute_growth(case, seat_sinks(exact, parameters.sinks), variant)
    return ExactGradients(dict(zip(leaves, values, strict=True)), scales, growth, case.dtype)


def _compute_gradients_of_block(
    contract: Contract,
    case: Case,
    leaves: Mapping[str, Tensor],
    parameters: Parameters,
    may_attend: Tensor | None,
    loss: Loss,
) -> ExactGradients:
    """Return the gradients of a block, through its feed-forward, attention and norm of tokens."""
    x, variant = leaves["x"], get_variant(contract, case)
    given = case.heads, may_attend, get_scale(contract, case), variant
    with torch.enable_grad():
        exact = transformer_block(x, parameters, *given)
        total = (exact.output * loss.cotangent).sum()
        values = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
    x, parameters = x.detach(), parameters.map(Tensor.detach)
    block = make_absolute_block(x, parameters, exact, variant)
    into_added, scales = leave_feed_forward(block, parameters, loss.cotangent.abs())
    own = block.entered, parameters, exact.attention, Loss(into_added)
    scales |= compute_absolute_gradients(contract, case, *own)
    scales["x"], norm = leave_norm_of_tokens(block, scales["x"], into_added)
    growth = compute_block_growth(case, exact.attention, variant, parameters)
    named = dict(zip(leaves, values, strict=True))
    return ExactGradients(named, scales | norm, growth, case.dtype)


def compute_role_gradients(
    contract: Contract,
    case: Case,
    roles: tuple[Tensor, Tensor, Tensor],
    may_attend: Tensor | None,
    cotangent: Tensor,
) -> ExactGradients:
    """Return the oracle's gradients of queries, keys and values that are inputs themselves.

    Each has shape (batch, tokens, width) with its own number of tokens. There are no layers.
    """
    query, key, value = leaves = [t.detach().clone().requires_grad_() for t in roles]
    scale, variant = get_scale(contract, case), get_variant(contract, case)
    eye = torch.eye(query.shape[-1], dtype=query.dtype)
    shared = eye[: case.kv_heads * case.head_dim]
    plain = Parameters(W_q=eye, W_k=shared, W_v=shared)
    with torch.enable_grad():
        exact = multi_head_attention(
            query, plain, case.heads, may_attend, scale,
            keys_from=key, values_from=value, variant=variant,
        )  # fmt: skip
        total = (exact.output * cotangent).sum()
        values = torch.autograd.grad(total, leaves, materialize_grads=True)
    given = tuple(t.detach().abs() for t in leaves)
    scales = _compute_absolute_roles(case, given, plain, cotangent.abs(), scale, exact, variant)
    growth = compute_growth(replace(case, tokens=key.shape[-2]), exact, variant)
    found = (dict(zip(ROLES, each, strict=True)) for each in (values, scales))
    return ExactGradients(next(found), next(found), growth, case.dtype)


def _compute_absolute_roles(
    case: Case,
    roles: tuple[Tensor, ...],
    plain: Parameters,
    cotangent: Tensor,
    scale: float,
    exact: MultiHeadResult,
    variant: Variant,
) -> tuple[Tensor, Tensor, Tensor]:
    """Apply the chain rule to absolute values of queries, keys and values, which roles are.

    A limit of scores has a slope of one at most. What enters a shared key is the sum over the heads
    that share it, and nothing enters the numbers of a token that no head reads.
    """
    query, key, value = roles
    last = variant.stand_last(query.shape[-2], key.shape[-2])
    q, k, v = split_shared_heads(project(query, plain, key, value), case.heads)
    q, k, context = (
        bound_turning(q, last),
        bound_turning(k, variant),
        split_heads(cotangent, case.heads),
    )
    weights = exact.weights.detach()
    into_weights = context @ v.mT
    mean = (weights * into_weights).sum(-1, keepdim=True)
    into_scores = scale * weights * (into_weights + mean)
    into_query = bound_turning(into_scores @ k, last)
    into_key = bound_turning(into_scores.mT @ q, variant)
    summed = (
        merge_heads(t.unflatten(-3, (case.kv_heads, -1)).sum(-3))
        for t in (into_key, weights.mT @ context)
    )
    into_keys, into_values = (t @ plain.W_k for t in summed)
    return merge_heads(into_query), into_keys, into_values


def _select_output(
    contract: Contract, exact: MultiHeadResult, x: Tensor, parameters: Parameters, loss: Loss
) -> Tensor:
    """Return the output over which the loss is a sum."""
    if not contract.has(Capability.ATTENTION):
        return linear(x, parameters.W_v, parameters.b_v)
    match contract.returns:
        case Returns.WEIGHTS_TWICE:
            return exact.weights[:, 0]
        case Returns.OUTPUT_AND_WEIGHTS if loss.output:
            return exact.weights
        case Returns.OUTPUT_AND_LOGSUMEXP if loss.output:
            return exact.logsumexp
        case _:
            return exact.output


def compute_growth(case: Case, exact: MultiHeadResult, variant: Variant = PLAIN) -> float:
    """Return an element's error, in units of the rounding error of the sum of its terms."""
    visible = exact.scores[exact.softmaxes > 0]
    largest = float(visible.detach().abs().max()) if visible.numel() else 0.0
    # The rounding of exp and its argument (4S), and of products of this length.
    length = max(case.d_in, case.d_out, case.tokens)
    growth, of = 4 + 4 * largest + 2 * math.sqrt(length), GrowthOf(case, exact, variant, largest)
    if variant.features:
        growth = 4 + 2 * math.sqrt(length) + count_feature_roundings(exact, length)
    for grow in GROWTHS:
        growth += grow(of)
    return growth


def compute_block_growth(
    case: Case, attention: MultiHeadResult, variant: Variant, parameters: Parameters
) -> float:
    """Return the error of an element that goes through a block, in roundings of its terms.

    Norms sum up all numbers of a token. The errors of the first norm change scores. The second norm
    adds one more step, and so do the layers after it, of which the second sums over the hidden
    width.
    """
    assert parameters.W_1 is not None, "there is a feed-forward"
    visible = attention.scores[attention.softmaxes > 0].detach()
    norm = 6 + 2 * math.sqrt(case.d_in)
    hidden = 4 + 2 * math.sqrt(len(parameters.W_1))
    own = compute_growth(case, attention, variant)
    return own + norm * (1 + float(visible.abs().max())) + norm + 2 * hidden
