"""The exact answer to a case, and how far from it a correct implementation may be."""

import hashlib
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from properties.case import Case
from properties.contract import Capability, Contract, Returns
from properties.tolerance import PRECISIONS, K, Tolerance, bound_linear_error, compute_bounds
from reference import (
    MultiHeadResult,
    Parameters,
    linear,
    merge_heads,
    multi_head_attention,
    split_heads,
)

MAX_CACHED = 4096
MAX_CACHED_SCORES = 1 << 11
"""So many answers are remembered, and none with more scores: some hundred MiB at the very most."""


@dataclass(frozen=True, eq=False)
class Expected:
    """What must come back, in order, each with its tolerance; and every intermediate result.

    Shared by all submissions of a process: never to be written on.
    """

    outputs: tuple[Tensor, ...]
    tolerances: tuple[Tolerance, ...]
    exact: MultiHeadResult


_CACHE: dict[tuple[object, ...], Expected] = {}


def get_scale(contract: Contract, case: Case) -> float:
    """What the scores are multiplied with."""
    return 1 / math.sqrt(case.head_dim) if contract.scale is None else contract.scale


def compute_expected(
    contract: Contract, case: Case, x: Tensor, parameters: Parameters, may_attend: Tensor | None
) -> Expected:
    """The oracle's answer in float64. Remembered: everybody is asked the same things."""
    if x.requires_grad:
        return _compute_expected(contract, case, x, parameters, may_attend)
    family = contract.returns, contract.has(Capability.ATTENTION), get_scale(contract, case)
    names, tensors = zip(*parameters.items(), strict=True)
    key = (*family, names, case.heads, case.dtype, hash_tensors(x, may_attend, *tensors))
    if key not in _CACHE:
        expected = _compute_expected(contract, case, x, parameters, may_attend)
        if expected.exact.scores.numel() > MAX_CACHED_SCORES:
            return expected
        if len(_CACHE) == MAX_CACHED:
            del _CACHE[next(iter(_CACHE))]
        _CACHE[key] = expected
    return _CACHE[key]


def hash_tensors(*tensors: Tensor | None) -> bytes:
    """What tells tensors from others: their shapes and numbers."""
    seen = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        seen.update(b"-" if tensor is None else repr(tuple(tensor.shape)).encode())
        if tensor is not None:
            seen.update(tensor.contiguous().numpy().tobytes())
    return seen.digest()


def _compute_expected(
    contract: Contract, case: Case, x: Tensor, parameters: Parameters, may_attend: Tensor | None
) -> Expected:
    scale = get_scale(contract, case)
    exact = multi_head_attention(x, parameters, case.heads, may_attend, scale)
    if not contract.has(Capability.ATTENTION):
        return _compute_expected_linear(exact, case, x, parameters)
    pairs = [
        compute_bounds(x, parameters, exact, scale, PRECISIONS[dtype], may_attend)
        for dtype in (case.dtype, _cap_at_float32(case.dtype))
    ]
    output = Tolerance(pairs[0][0], pairs[1][0])
    weights = Tolerance(pairs[0][1], pairs[1][1])
    match contract.returns:
        case Returns.OUTPUT:
            return Expected((exact.output,), (output,), exact)
        case Returns.OUTPUT_AND_WEIGHTS:
            return Expected((exact.output, exact.weights), (output, weights), exact)
        case Returns.WEIGHTS_TWICE:
            # Here the queries and keys are the input, and there is one head.
            w, a = exact.weights[:, 0], weights[:, 0]
            return Expected((w, w), (a, a), exact)


def _compute_expected_linear(
    exact: MultiHeadResult, case: Case, x: Tensor, parameters: Parameters
) -> Expected:
    output = linear(x, parameters.W_v, parameters.b_v)
    errors = [
        K * bound_linear_error(x, parameters.W_v, output, PRECISIONS[dtype])
        for dtype in (case.dtype, _cap_at_float32(case.dtype))
    ]
    return Expected((output,), (Tolerance(*errors),), exact)


def _cap_at_float32(dtype: str) -> str:
    return "float32" if dtype == "float64" else dtype


@dataclass(frozen=True, eq=False)
class ExactGradients:
    """The oracle's gradients of sum(output * cotangent), and how large their terms are.

    `scales` are the sums of absolute values of the terms that a gradient is a sum of: rounding
    errors are proportional to them, however much the terms cancel.
    """

    values: dict[str, Tensor]
    scales: dict[str, Tensor]
    growth: float
    dtype: str

    def compute_tolerance(self, name: str) -> Tolerance:
        """How far the gradient with this name may be off."""
        limits = [
            K * PRECISIONS[dtype].u * self.growth * (self.scales[name] + 1e-30)
            for dtype in (self.dtype, _cap_at_float32(self.dtype))
        ]
        return Tolerance(*limits)


def compute_gradients(
    contract: Contract,
    case: Case,
    x: Tensor,
    parameters: Parameters,
    may_attend: Tensor | None,
    cotangent: Tensor,
) -> ExactGradients:
    """The oracle's gradients in float64, by torch.autograd through the equation."""
    leaves = {"x": x, **dict(parameters.items())}
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in leaves.items()}
    moved = Parameters(**{name: leaf for name, leaf in leaves.items() if name != "x"})
    with torch.enable_grad():
        expected = compute_expected(contract, case, leaves["x"], moved, may_attend)
        total = (expected.outputs[0] * cotangent).sum()
        found: tuple[Tensor | None, ...] = torch.autograd.grad(
            total, list(leaves.values()), allow_unused=True
        )
    values = {
        name: torch.zeros_like(leaf) if grad is None else grad
        for (name, leaf), grad in zip(leaves.items(), found, strict=True)
    }
    exact = expected.exact
    visible = exact.scores[exact.weights > 0]
    largest = float(visible.detach().abs().max()) if visible.numel() else 0.0
    # Of exp and its argument (4S), and of products of this length.
    width = max(case.d_in, case.d_out, case.tokens)
    return ExactGradients(
        values,
        compute_absolute_gradients(contract, case, x, parameters, exact, cotangent),
        4 + 4 * largest + 2 * math.sqrt(width),
        case.dtype,
    )


def compute_absolute_gradients(
    contract: Contract,
    case: Case,
    x: Tensor,
    parameters: Parameters,
    exact: MultiHeadResult,
    cotangent: Tensor,
) -> dict[str, Tensor]:
    """The chain rule of attention with every number replaced by its absolute value."""
    p = parameters.map(lambda t: t.detach().abs())
    x, grad = x.abs(), cotangent.abs()
    if not contract.has(Capability.ATTENTION):
        rows, columns = grad.flatten(0, -2), x.flatten(0, -2)
        return {"x": grad @ p.W_v, "W_v": rows.mT @ columns, "b_v": rows.sum(0)}
    query, key, value = (
        split_heads(linear(x, weight, bias), case.heads)
        for weight, bias in ((p.W_q, p.b_q), (p.W_k, p.b_k), (p.W_v, p.b_v))
    )
    weights = exact.weights.detach()
    scales: dict[str, Tensor] = {}
    context = grad
    if p.W_o is not None:
        merged = merge_heads(weights @ value)
        scales["W_o"] = grad.flatten(0, -2).mT @ merged.flatten(0, -2)
        scales["b_o"] = grad.flatten(0, -2).sum(0)
        context = grad @ p.W_o
    context = split_heads(context, case.heads)
    into_weights = context @ value.mT
    mean = (weights * into_weights).sum(-1, keepdim=True)
    into_scores = get_scale(contract, case) * weights * (into_weights + mean)
    parts = {
        "q": into_scores @ key,
        "k": into_scores.mT @ query,
        "v": weights.mT @ context,
    }
    scales["x"] = torch.zeros_like(x)
    for name, part in parts.items():
        merged = merge_heads(part)
        scales[f"W_{name}"] = merged.flatten(0, -2).mT @ x.flatten(0, -2)
        scales[f"b_{name}"] = merged.flatten(0, -2).sum(0)
        scales["x"] = scales["x"] + merged @ getattr(p, f"W_{name}")
    return scales
