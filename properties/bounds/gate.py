"""The error of a gate."""

import torch
from torch import Tensor

from headcheck.properties.bounds.layers import bound_linear_error
from headcheck.properties.bounds.precision import Precision
from headcheck.reference import MultiHeadResult, Parameters, Variant, leave_heads


def bound_gated_error(
    x: Tensor,
    context: Tensor,
    parameters: Parameters,
    exact: MultiHeadResult,
    precision: Precision,
    variant: Variant,
) -> Tensor:
    """Propagate the error of the merged heads through the gate, if there is one.

    An error e of its argument moves a sigmoid by at most its slope times expm1(e). Its own rounding
    error is that of a number near 1, because it may be computed as (1 + tanh)/2.
    """
    if exact.gate is None:
        return context
    gate = exact.gate.sigmoid()
    assert parameters.W_gate is not None, "what it asks is there"
    rows = exact.gate.shape[-1] // len(parameters.W_gate)
    weight = parameters.W_gate.repeat_interleave(rows, dim=0)
    asked = bound_linear_error(x, weight, exact.gate, precision)
    off = gate * (1 - gate) * torch.expm1(asked.clamp(max=50.0)) + 3 * precision.u
    ungated = leave_heads(exact.weights @ exact.value, parameters, variant).abs()
    return context * (gate + off) + ungated * off + precision.u * exact.context.abs()
