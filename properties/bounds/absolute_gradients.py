"""The chain rule of attention, applied to the absolute values of all numbers.

The rounding errors of a correct implementation are proportional to sums of absolute values, however
much the terms cancel. In a block the bounds of earlier steps bound the input of each step.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from headcheck.properties.bounds.block import BEND, STEEPEST
from headcheck.properties.bounds.features import find_slopes
from headcheck.properties.bounds.head_norms import make_absolute_heads
from headcheck.properties.bounds.layers import Scales, bound_layer
from headcheck.properties.bounds.maps import sum_maps, weigh_maps
from headcheck.properties.bounds.norms import AbsoluteNorm, make_absolute_norm
from headcheck.properties.bounds.oracle import get_scale
from headcheck.properties.bounds.parts import OWN_SUMS, Entering
from headcheck.properties.bounds.positions import bound_turning
from headcheck.properties.contracts.contract import Capability, Contract, Returns
from headcheck.properties.contracts.variant import get_variant
from headcheck.properties.terms.case import Case
from headcheck.reference import (
    BlockResult,
    MultiHeadResult,
    Parameters,
    Variant,
    append_beside,
    join_maps,
    linear,
    merge_heads,
    project,
    project_beside,
    split_maps,
    split_shared_heads,
)


@dataclass(frozen=True, eq=False)
class Loss:
    """The loss sum(output * cotangent) of one output, and the weights that dropout kept."""

    cotangent: Tensor
    output: int = 0
    """the number of the output"""
    kept: Tensor | None = None


def bound_roles(
    x: Tensor, parameters: Parameters, exact: MultiHeadResult, variant: Variant
) -> tuple[Tensor, Tensor, Tensor, tuple[AbsoluteNorm | None, AbsoluteNorm | None]]:
    """Bound queries, keys and values by the absolute values of all numbers.

    Returns the norms of queries and keys, too.
    """
    heads, raw = exact.query.shape[-3], parameters
    x, p = x.abs(), parameters.map(lambda t: t.detach().abs())
    query, key, value = split_shared_heads(project(x, p, x, x), heads)
    q, k, _ = split_shared_heads(exact.projected, heads)
    norms = (
        make_absolute_norm(query, q.detach(), *raw.get_norm("q"), variant),
        make_absolute_norm(key, k.detach(), *raw.get_norm("k"), variant),
    )
    query, key = (
        t if norm is None else norm.apply() for t, norm in zip((query, key), norms, strict=True)
    )
    query, key = append_beside(query, key, project_beside(x, p, x))
    if raw.lambdas is not None:
        query, key = split_maps(query), split_maps(key)
    query, key = bound_turning(query, variant), bound_turning(key, variant)
    return query, key, value, norms


def enter_layers(x: Tensor, p: Parameters, parts: Mapping[str, Tensor], case: Case) -> Scales:
    """Propagate gradients back from all heads' queries, keys and values to their layers and to x.

    Parameters and x are absolute values. With latents, the rotating coordinates follow each head's
    own.
    """
    sources = dict.fromkeys(parts, x)
    own = {name: part[..., : case.head_dim] for name, part in parts.items()}
    scales = {"x": torch.zeros_like(x)}
    if p.W_down is not None:
        latent = linear(x, p.W_down)
        sources |= {"k": latent, "v": latent}
        scales["latent"] = torch.zeros_like(latent)
    if p.W_qr is not None:
        own["qr"] = parts["q"][..., case.head_dim :]
        own["kr"] = parts["k"][..., case.head_dim :]
    for name, part in own.items():
        into = merge_heads(part.unflatten(-3, (count_heads(name, case), -1)).sum(-3))
        source = sources.get(name, x)
        scales |= bound_layer(name, into, source)
        read = "x" if source is x else "latent"
        scales[read] = scales[read] + into @ getattr(p, f"W_{name}")
    if p.W_down is not None:
        into = scales.pop("latent")
        scales |= bound_layer("down", into, x)
        scales["x"] = scales["x"] + into @ p.W_down
    return scales


def count_heads(name: str, case: Case) -> int:
    """Return how many heads a part has: keys and values may be shared; rotating keys always are."""
    if name == "kr":
        return 1
    return case.kv_heads if name in "kv" else case.heads


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
    scales = {name: t for sum_own in OWN_SUMS for name, t in sum_own(entering).items()}
    if variant.features:  # a share is a product over the sum of all
        into_scores = into_scores / exact.scores.detach()
    into_query, into_key = into_scores @ key, into_scores.mT @ query
    if variant.features:
        into_query, into_key = into_query * find_slopes(query), into_key * find_slopes(key)
    into_query, into_key = bound_turning(into_query, variant), bound_turning(into_key, variant)
    if p.lambdas is not None:
        into_query, into_key = join_maps(into_query), join_maps(into_key)
    return into_query, into_key, scales


@dataclass(frozen=True, eq=False)
class AbsoluteBlock:
    """The bounds of each step of a block, and its norms."""

    entered: Tensor
    normed: Tensor
    hidden: Tensor
    output: Tensor
    norm_in: AbsoluteNorm
    norm_ff: AbsoluteNorm


def make_absolute_block(
    x: Tensor, parameters: Parameters, exact: BlockResult, variant: Variant
) -> AbsoluteBlock:
    """Bound all steps of a block by the absolute values of all numbers."""
    raw, p, steps = parameters, parameters.map(lambda t: t.detach().abs()), variant.block
    assert steps is not None and p.W_1 is not None and p.W_2 is not None and p.W_o is not None
    norm_in = make_absolute_norm(x.abs(), x, raw.gain_in, raw.shift_in, steps.norms)
    assert norm_in is not None, "a block norms its tokens"
    entered = norm_in.apply()
    _, _, value, _ = bound_roles(entered, parameters, exact.attention, variant)
    merged = merge_heads(exact.attention.weights.detach() @ value)
    added = x.abs() + linear(merged, p.W_o, p.b_o)
    before = exact.added.detach()
    norm_ff = make_absolute_norm(added, before, raw.gain_ff, raw.shift_ff, steps.norms)
    assert norm_ff is not None, "a block norms its tokens"
    normed = norm_ff.apply()
    hidden = linear(normed, p.W_1, p.b_1)  # an activation makes no number larger
    output = added + linear(hidden, p.W_2, p.b_2)
    return AbsoluteBlock(entered, normed, hidden, output, norm_in, norm_ff)


def leave_feed_forward(
    block: AbsoluteBlock, parameters: Parameters, grad: Tensor
) -> tuple[Tensor, Scales]:
    """Propagate gradients back from the output of a block to the sum of attention and residual.

    An error before the activation also changes the slope of the activation, so it counts here.
    """
    p = parameters.map(lambda t: t.detach().abs())
    assert p.W_1 is not None and p.W_2 is not None, "there is a feed-forward"
    scales = bound_layer("2", grad, block.hidden)
    inner = (grad @ p.W_2) * (STEEPEST + BEND * block.hidden)
    scales |= bound_layer("1", inner, block.normed)
    normed = inner @ p.W_1
    scales |= block.norm_ff.bound_own("ff", normed)
    return grad + block.norm_ff.pull_back(normed), scales


def leave_norm_of_tokens(
    block: AbsoluteBlock, entered: Tensor, beside: Tensor
) -> tuple[Tensor, Scales]:
    """Propagate gradients back from the input of attention and from its residual to the tokens."""
    scales = block.norm_in.bound_own("in", entered)
    return beside + block.norm_in.pull_back(entered), scales
