"""The exact answer to a case, and how far from it a correct implementation may be."""

import hashlib
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from properties.case import Case
from properties.contract import Capability, Contract, Returns
from properties.tolerance import (
    PRECISIONS,
    K,
    Precision,
    Tolerance,
    bound_linear_error,
    compute_bounds,
)
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
"""How many answers are cached, and the most scores of one: a few hundred MiB at the very most."""


@dataclass(frozen=True, eq=False)
class Expected:
    """The outputs in order, each with its tolerance, and every intermediate result.

    Shared by all submissions of a process, so it must not be modified.
    """

    outputs: tuple[Tensor, ...]
    tolerances: tuple[Tolerance, ...]
    exact: MultiHeadResult


_CACHE: dict[tuple[object, ...], Expected] = {}


def get_scale(contract: Contract, case: Case) -> float:
    """Return the factor that the scores are multiplied by."""
    return 1 / math.sqrt(case.head_dim) if contract.scale is None else contract.scale


def compute_expected(
    contract: Contract, case: Case, x: Tensor, parameters: Parameters, may_attend: Tensor | None
) -> Expected:
    """Return the oracle's answer in float64. Cached: all submissions get the same queries."""
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
    """Return a hash of the shapes and numbers of tensors."""
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        digest.update(b"-" if tensor is None else repr(tuple(tensor.shape)).encode())
        if tensor is not None:
            digest.update(tensor.contiguous().numpy().tobytes())
    return digest.digest()


def _compute_expected(
    contract: Contract, case: Case, x: Tensor, parameters: Parameters, may_attend: Tensor | None
) -> Expected:
    scale = get_scale(contract, case)
    exact = multi_head_attention(x, parameters, case.heads, may_attend, scale)
    if not contract.has(Capability.ATTENTION):
        return _compute_expected_linear(exact, case, x, parameters)
    bounds = (
        compute_bounds(x, parameters, exact, scale, precision, may_attend)
        for precision in _get_precisions(case.dtype)
    )
    output, weights = (Tolerance(*limits) for limits in zip(*bounds, strict=True))
    match contract.returns:
        case Returns.OUTPUT:
            return Expected((exact.output,), (output,), exact)
        case Returns.OUTPUT_AND_WEIGHTS:
            return Expected((exact.output, exact.weights), (output, weights), exact)
        case Returns.WEIGHTS_TWICE:
            # Queries and keys are the input here, and there is one head.
            w, a = exact.weights[:, 0], weights[:, 0]
            return Expected((w, w), (a, a), exact)


def _compute_expected_linear(
    exact: MultiHeadResult, case: Case, x: Tensor, parameters: Parameters
) -> Expected:
    output = linear(x, parameters.W_v, parameters.b_v)
    limits = (
        K * bound_linear_error(x, parameters.W_v, output, precision)
        for precision in _get_precisions(case.dtype)
    )
    return Expected((output,), (Tolerance(*limits),), exact)


def _get_precisions(dtype: str) -> tuple[Precision, Precision]:
    """Return the precision of a dtype, and of what may compute in float32 instead."""
    return PRECISIONS[dtype], PRECISIONS["float32" if dtype == "float64" else dtype]


@dataclass(frozen=True, eq=False)
class ExactGradients:
    """The oracle's gradients of sum(output * cotangent), and the magnitudes of their terms.

    Every gradient is a sum of terms. `scales` holds the sums of their absolute values: rounding
    errors are proportional to these, however much the terms cancel.
    """

    values: dict[str, Tensor]
    scales: dict[str, Tensor]
    growth: float
    dtype: str

    def compute_tolerance(self, name: str) -> Tolerance:
        """Return the tolerance of the gradient with this name."""
        scale = self.scales[name] + 1e-30
        limits = (K * p.u * self.growth * scale for p in _get_precisions(self.dtype))
        return Tolerance(*limits)


def compute_gradients(
    contract: Contract,
    case: Case,
    x: Tensor,
    parameters: Parameters,
    may_attend: Tensor | None,
    cotangent: Tensor,
) -> ExactGradients:
    """Return the oracle's gradients in float64, by torch.autograd through the equation."""
    leaves = {"x": x, **dict(parameters.items())}
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in leaves.items()}
    moved = Parameters(**{name: leaf for name, leaf in leaves.items() if name != "x"})
    with torch.enable_grad():
        expected = compute_expected(contract, case, leaves["x"], moved, may_attend)
        total = (expected.outputs[0] * cotangent).sum()
        values = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
    exact = expected.exact
    visible = exact.scores[exact.weights > 0]
    largest = float(visible.detach().abs().max()) if visible.numel() else 0.0
    # The rounding of exp and its argument (4S), and of products of this length.
    growth = 4 + 4 * largest + 2 * math.sqrt(max(case.d_in, case.d_out, case.tokens))
    scales = compute_absolute_gradients(contract, case, x, parameters, exact, cotangent)
    return ExactGradients(dict(zip(leaves, values, strict=True)), scales, growth, case.dtype)


def compute_absolute_gradients(
    contract: Contract,
    case: Case,
    x: Tensor,
    parameters: Parameters,
    exact: MultiHeadResult,
    cotangent: Tensor,
) -> dict[str, Tensor]:
    """Apply the chain rule of attention to the absolute values of all numbers."""
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
    parts = {"q": into_scores @ key, "k": into_scores.mT @ query, "v": weights.mT @ context}
    scales["x"] = torch.zeros_like(x)
    for name, part in parts.items():
        merged = merge_heads(part)
        scales[f"W_{name}"] = merged.flatten(0, -2).mT @ x.flatten(0, -2)
        scales[f"b_{name}"] = merged.flatten(0, -2).sum(0)
        scales["x"] = scales["x"] + merged @ getattr(p, f"W_{name}")
    return scales
