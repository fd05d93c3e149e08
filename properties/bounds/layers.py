"""The rounding errors of layers, of latents and of gates, and the absolute gradients of a layer."""

import math

import torch
from torch import Tensor

from headcheck.properties.bounds.precision import Precision, RoundedAttention
from headcheck.reference import Parameters, leave_heads, linear


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


Scales = dict[str, Tensor]
"""scales of the gradients of x and of parameters"""


def bound_layer(name: str, grad: Tensor, x: Tensor) -> Scales:
    """Return a layer's gradients of weight and bias, given its input and its output's gradient."""
    rows = grad.flatten(0, -2)
    return {f"W_{name}": rows.mT @ x.flatten(0, -2), f"b_{name}": rows.sum(0)}


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


def bound_gated_error(context: Tensor, of: RoundedAttention) -> Tensor:
    """Propagate the error of the merged heads through the gate, if there is one.

    An error e of its argument moves a sigmoid by at most its slope times expm1(e). Its own rounding
    error is that of a number near 1, because it may be computed as (1 + tanh)/2.
    """
    exact, precision = of.exact, of.precision
    if exact.gate is None:
        return context
    gate = exact.gate.sigmoid()
    assert of.p.W_gate is not None, "what it asks is there"
    rows = exact.gate.shape[-1] // len(of.p.W_gate)
    weight = of.p.W_gate.repeat_interleave(rows, dim=0)
    asked = bound_linear_error(of.x, weight, exact.gate, precision)
    off = gate * (1 - gate) * torch.expm1(asked.clamp(max=50.0)) + 3 * precision.u
    ungated = leave_heads(exact.weights @ exact.value, of.p, of.variant).abs()
    return context * (gate + off) + ungated * off + precision.u * exact.context.abs()
