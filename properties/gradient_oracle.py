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

from headcheck.properties.absolute_block import (
    leave_feed_forward,
    leave_norm_of_tokens,
    make_absolute_block,
)
from headcheck.properties.absolute_roles import bound_layer, bound_roles, enter_layers
from headcheck.properties.case import Case
from headcheck.properties.contract import Capability, Contract, Returns
from headcheck.properties.feature_tolerance import find_slopes
from headcheck.properties.oracle import get_precisions, get_scale, hash_tensors
from headcheck.properties.role_tolerance import bound_angles, bound_turning
from headcheck.properties.sized_cache import SizedCache
from headcheck.properties.tolerance import K, Tolerance, seat_sinks
from headcheck.properties.variant import get_variant
from headcheck.reference import (
    PLAIN,
    MultiHeadResult,
    Parameters,
    Variant,
    join_maps,
    linear,
    merge_heads,
    multi_head_attention,
    split_heads,
    transformer_block,
)


@dataclass(frozen=True, eq=False)
class Loss:
    """The loss sum(output * cotangent) of one output, and the weights that dropout kept."""

    cotangent: Tensor
    output: int = 0
    """the number of the output"""
    kept: Tensor | None = None


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
    names, tensors = zip(*parameters.items(), strict=True)
    content = hash_tensors(x, may_attend, loss.cotangent, loss.kept, *tensors)
    asked = contract.returns, contract.has(Capability.ATTENTION)
    family = *asked, get_scale(contract, case), get_variant(contract, case)
    key = (*family, names, case.heads, case.dtype, case.tokens, loss.output, content)
    return _CACHE.get_or_make(
        key,
        lambda: _compute_gradients(contract, case, x, parameters, may_attend, loss),
        lambda _: sum(tensor.numel() for tensor in (x, *tensors)),
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
    eye = torch.eye(query.shape[-1], dtype=query.dtype)
    scale, plain = get_scale(contract, case), Parameters(W_q=eye, W_k=eye, W_v=eye)
    with torch.enable_grad():
        exact = multi_head_attention(
            query, plain, case.heads, may_attend, scale, keys_from=key, values_from=value
        )
        total = (exact.output * cotangent).sum()
        values = torch.autograd.grad(total, leaves, materialize_grads=True)
    q, k, v, context = (split_heads(t.detach().abs(), case.heads) for t in (*roles, cotangent))
    weights = exact.weights.detach()
    into_weights = context @ v.mT
    mean = (weights * into_weights).sum(-1, keepdim=True)
    into_scores = scale * weights * (into_weights + mean)
    scales = map(merge_heads, (into_scores @ k, into_scores.mT @ q, weights.mT @ context))
    growth = compute_growth(replace(case, tokens=key.shape[-2]), exact)
    found = (dict(zip(ROLES, each, strict=True)) for each in (values, scales))
    return ExactGradients(next(found), next(found), growth, case.dtype)


def weigh_maps(softmaxes: Tensor, lambdas: Tensor | None) -> Tensor:
    """Return the absolute factor of each softmax in the weights, along the axis of softmaxes."""
    if lambdas is None:
        return torch.ones_like(softmaxes[..., :1, :1])
    factors = torch.stack([torch.ones_like(lambdas), lambdas.abs()])
    return factors[:, None, :, None, None]


def sum_maps(softmaxes: Tensor, lambdas: Tensor | None) -> Tensor:
    """Return the weights without cancellation: sums instead of differences of softmaxes."""
    return softmaxes if lambdas is None else (softmaxes * weigh_maps(softmaxes, lambdas)).sum(0)


def compute_growth(case: Case, exact: MultiHeadResult, variant: Variant = PLAIN) -> float:
    """Return an element's error, in units of the rounding error of the sum of its terms."""
    visible = exact.scores[exact.softmaxes > 0]
    largest = float(visible.detach().abs().max()) if visible.numel() else 0.0
    # The rounding of exp and its argument (4S), and of products of this length.
    length = max(case.d_in, case.d_out, case.tokens)
    growth = 4 + 4 * largest + 2 * math.sqrt(length)
    if variant.features:
        return 4 + 2 * math.sqrt(length) + count_feature_roundings(exact, length)
    if variant.rotary:
        angles = bound_angles(exact.query, variant, 1.0)
        growth += (6 + 2 * float(angles.max())) * (1 + largest)
    if variant.norm:
        growth += (6 + 2 * math.sqrt(case.head_dim)) * (1 + largest)
    if variant.beside:
        growth += (4 + 2 * math.sqrt(case.d_latent)) * (1 + largest)  # one more layer
    if exact.gate is not None:
        growth += 4 * float(exact.gate.detach().abs().max())
    if variant.alibi:
        growth += 4 * case.tokens  # of what is added to scores that cancel
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


def count_feature_roundings(exact: MultiHeadResult, length: int) -> float:
    """Return the relative error of features, in roundings.

    However small features are, they are rounded like numbers near 1; the rounding errors of their
    layer grow with their size.
    """
    features = torch.cat([exact.query.detach().flatten(), exact.key.detach().flatten()])
    return 4 / float(features.min()) + 2 * math.sqrt(length) * float(features.max())


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


def compute_absolute_gradients(
    contract: Contract,
    case: Case,
    x: Tensor,
    parameters: Parameters,
    exact: MultiHeadResult,
    loss: Loss,
) -> dict[str, Tensor]:
    """Apply the chain rule of attention to the absolute values of all numbers."""
    p = parameters.map(lambda t: t.detach().abs())
    x, grad = x.abs(), loss.cotangent.abs()
    if not contract.has(Capability.ATTENTION):
        return {"x": grad @ p.W_v, **bound_layer("v", grad, x)}
    variant = get_variant(contract, case)
    query, key, value, norms = bound_roles(x, parameters, exact, variant)
    if variant.features:
        query, key = exact.query.detach(), exact.key.detach()
    softmaxes = exact.softmaxes.detach()
    weights = sum_maps(softmaxes, p.lambdas)
    kept = torch.ones_like(weights) if loss.kept is None else loss.kept.abs()
    merged = merge_heads(weights * kept @ value)
    grad, gated, into_weights = _enter_heads(contract, p, loss, value, kept)
    context = split_heads(gated, case.heads)
    scale = get_scale(contract, case)
    into_query, into_key, scales = _enter_scores(
        p, exact, into_weights, scale, (query, key), variant
    )
    parts = {
        "q": bound_turning(into_query, variant),
        "k": bound_turning(into_key, variant),
        "v": (weights * kept).mT @ context,
    }
    if p.W_o is not None:
        scales |= bound_layer("o", grad, merged)
    scales["x"] = torch.zeros_like(x)
    if p.W_gate is not None:
        into_gate = (merged * gated).unflatten(-1, (len(p.W_gate), -1)).sum(-1)
        scales |= bound_layer("gate", into_gate, x)
        scales["x"] = into_gate @ p.W_gate
    for name, norm in zip("qk", norms, strict=True):
        if norm is not None:
            scales |= norm.bound_own(name, parts[name])
            parts[name] = norm.pull_back(parts[name])
    into_x = scales["x"]
    scales |= enter_layers(x, p, parts, case)
    scales["x"] = scales["x"] + into_x
    return scales


def _enter_heads(
    contract: Contract, p: Parameters, loss: Loss, value: Tensor, kept: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Propagate gradients from the loss to the output, the merged heads, and the weights."""
    grad = loss.cotangent.abs()
    if loss.output:  # the weights themselves, before the values, or the log of their divisor
        nothing = torch.zeros_like(merge_heads(value[..., :1, :].expand(*kept.shape[:-1], -1)))
        summed = contract.returns is Returns.OUTPUT_AND_LOGSUMEXP
        return nothing, nothing, grad.unsqueeze(-1) if summed else grad
    # A gate is one at most, and is rounded like one, as its slope is.
    gated = grad if p.W_o is None else grad @ p.W_o
    return grad, gated, split_heads(gated, kept.shape[-3]) @ value.mT * kept


def _enter_scores(
    p: Parameters,
    exact: MultiHeadResult,
    into_weights: Tensor,
    scale: float,
    compared: tuple[Tensor, Tensor],
    variant: Variant,
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Propagate gradients from the weights to queries, keys, and per-head parameters between."""
    (query, key), softmaxes = compared, exact.softmaxes.detach()
    into_softmaxes = into_weights * weigh_maps(softmaxes, p.lambdas)
    mean = (softmaxes * into_softmaxes).sum(-1, keepdim=True)
    into_scores = scale * softmaxes * (into_softmaxes + mean)
    scales: dict[str, Tensor] = {}
    if p.lambdas is not None:
        scales["lambdas"] = (softmaxes[1] * into_weights).transpose(0, 1).flatten(1).sum(1)
    if p.sinks is not None:
        # A sink has no value, so its gradient is its weight times the mean. That weight may be
        # computed as what the others lack to one: then it is rounded like one, however small.
        scales["sinks"] = mean.transpose(0, 1).flatten(1).sum(1)
    if variant.features:  # a share is a product over the sum of all
        into_scores = into_scores / exact.scores.detach()
    into_query, into_key = into_scores @ key, into_scores.mT @ query
    if variant.features:
        into_query, into_key = into_query * find_slopes(query), into_key * find_slopes(key)
    if p.lambdas is not None:
        into_query, into_key = join_maps(into_query), join_maps(into_key)
    return into_query, into_key, scales
