"""The chain rule of attention, applied to the absolute values of all numbers.

The rounding errors of a correct implementation are proportional to sums of absolute values, however
much the terms cancel.
"""

import torch
from torch import Tensor

from headcheck.properties.bounds.absolute_roles import (
    bound_roles,
    count_heads,
    enter_layers,
)
from headcheck.properties.bounds.features import find_slopes
from headcheck.properties.bounds.head_norms import make_absolute_heads
from headcheck.properties.bounds.layers import bound_layer
from headcheck.properties.bounds.loss import Loss
from headcheck.properties.bounds.maps import sum_maps, weigh_maps
from headcheck.properties.bounds.oracle import get_scale
from headcheck.properties.bounds.parts import BOUNDS, Entering
from headcheck.properties.bounds.positions import bound_turning
from headcheck.properties.contracts.contract import Capability, Contract, Returns
from headcheck.properties.contracts.variant import get_variant
from headcheck.properties.terms.case import Case
from headcheck.reference import (
    MultiHeadResult,
    Parameters,
    Variant,
    join_maps,
)


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
    heads = make_absolute_heads(weights * kept, value, parameters, exact, variant)
    merged = heads.merged
    grad, gated = _enter_heads(p, loss, merged)
    context, of_norm = heads.enter(gated, case.heads)
    into_weights = _enter_weights(contract, loss, context @ value.mT * kept)
    scale = get_scale(contract, case)
    into_query, into_key, scales = _enter_scores(
        p, exact, into_weights, scale, (query, key), variant
    )
    scales |= of_norm
    parts = {
        "q": into_query,
        "k": into_key,
        "v": (weights * kept).mT @ context,
    }
    if p.W_o is not None:
        scales |= bound_layer("o", grad, merged)
    into_x, of_gate = _enter_gate(p, merged * gated, x)
    for name, norm in zip("qk", norms, strict=True):
        if norm is not None:
            scales |= norm.bound_own(name, parts[name], count_heads(name, case))
            parts[name] = norm.pull_back(parts[name])
    scales |= of_gate | enter_layers(x, p, parts, case)
    scales["x"] = scales["x"] + into_x
    return scales


def _enter_heads(p: Parameters, loss: Loss, merged: Tensor) -> tuple[Tensor, Tensor]:
    """Propagate gradients from the loss to the output and to the merged heads."""
    if loss.output:  # the weights themselves, before the values, or the log of their divisor
        return torch.zeros_like(merged), torch.zeros_like(merged)
    grad = loss.cotangent.abs()
    # A gate is one at most, and is rounded like one, as its slope is.
    return grad, grad if p.W_o is None else grad @ p.W_o


def _enter_gate(p: Parameters, gated: Tensor, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Propagate gradients from the gated heads to the input and to the gate's own layer."""
    if p.W_gate is None:
        return torch.zeros_like(x), {}
    into_gate = gated.unflatten(-1, (len(p.W_gate), -1)).sum(-1)
    return into_gate @ p.W_gate, bound_layer("gate", into_gate, x)


def _enter_weights(contract: Contract, loss: Loss, through_values: Tensor) -> Tensor:
    """Return the gradients of the weights, which the loss reaches through values or directly."""
    if not loss.output:
        return through_values
    grad = loss.cotangent.abs()
    return grad.unsqueeze(-1) if contract.returns is Returns.OUTPUT_AND_LOGSUMEXP else grad


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
    entering = Entering(p, variant, softmaxes, into_weights, mean, into_scores / scale, compared)
    scales = {name: t for bounds in BOUNDS for name, t in bounds.sum_own(entering).items()}
    if variant.features:  # a share is a product over the sum of all
        into_scores = into_scores / exact.scores.detach()
    into_query, into_key = into_scores @ key, into_scores.mT @ query
    if variant.features:
        into_query, into_key = into_query * find_slopes(query), into_key * find_slopes(key)
    into_query, into_key = bound_turning(into_query, variant), bound_turning(into_key, variant)
    if p.lambdas is not None:
        into_query, into_key = join_maps(into_query), join_maps(into_key)
    return into_query, into_key, scales
