"""The tolerance of a block: norms of tokens, residuals and a feed-forward around attention.

Errors are propagated through the steps one after the other. The error of a norm of tokens is
bounded like that of a norm of queries (`bound_normed_error`); after attention its input already has
errors. A residual adds the errors of both terms and its own rounding. With g(z) = z Φ(z) and an
error e of z, g is off by at most

    e min(L, |g'(z)| + C e) + 4u |z|      L = max |g'|, C = max |g''|

since the rounding error of Φ is that of a number near 1, however small Φ is: Φ may be computed as
(1 + erf)/2, or with tanh.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.bounds.attention import K, bound_attention
from headcheck.properties.bounds.layers import bound_linear_error
from headcheck.properties.bounds.norms import bound_normed_error
from headcheck.properties.bounds.precision import Precision, RoundedAttention
from headcheck.reference import BlockResult, BlockSteps
from headcheck.reference.block import CUBE

STEEPEST = 1.13
"""the largest slope of GELU, and of its approximation: at √2 it is 1.129"""
BEND = 0.8
"""the largest second derivative of both: at 0 it is 2 φ(0) = 0.798"""


def bound_block(of: RoundedAttention, exact: BlockResult) -> Tensor:
    """Return K·B for the output of a block, given the tokens and the attention in it."""
    p, steps, precision = of.p, of.variant.block, of.precision
    assert steps is not None and p.W_1 is not None and p.W_2 is not None, "there is a block"
    u = precision.u
    nothing, norms = torch.zeros_like(of.x), steps.norms
    error = bound_normed_error(of.x, nothing, p.gain_in, p.shift_in, norms, precision)
    error, _ = bound_attention(replace(of, x=exact.entered, error=error))
    added = error + u * exact.added.abs()
    error = bound_normed_error(exact.added, added, p.gain_ff, p.shift_ff, norms, precision)
    error = error @ p.W_1.abs().mT + bound_linear_error(
        exact.normed, p.W_1, exact.hidden, precision
    )
    error = bound_activated_error(exact.hidden, error, steps, precision)
    error = error @ p.W_2.abs().mT + bound_linear_error(
        exact.active, p.W_2, exact.forwarded, precision
    )
    return K * (added + error + u * exact.output.abs())


def bound_activated_error(
    hidden: Tensor, error: Tensor, steps: BlockSteps, precision: Precision
) -> Tensor:
    """Bound the error of activated numbers, given the error of the numbers before."""
    slope = (find_activation_slope(hidden, steps).abs() + BEND * error).clamp(max=STEEPEST)
    return slope * error + 4 * precision.u * hidden.abs()


def find_activation_slope(t: Tensor, steps: BlockSteps) -> Tensor:
    """Return the derivative of the activation at each number."""
    if steps.activation == "gelu_tanh":
        inner = math.sqrt(2 / math.pi) * (t + CUBE * t**3)
        bend = math.sqrt(2 / math.pi) * (1 + 3 * CUBE * t**2)
        tanh = inner.tanh()
        return 0.5 * (1 + tanh) + 0.5 * t * (1 - tanh.square()) * bend
    density = torch.exp(-t.square() / 2) / math.sqrt(2 * math.pi)
    return 0.5 * torch.erfc(-t / math.sqrt(2)) + t * density
