"""The errors of norms, and their absolute gradients.

The same functions serve the norms of queries and keys, and those of a block's tokens. A norm over a
whole projection has the same formulas with means over all heads' numbers of a token.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from headcheck.properties.bounds.precision import Precision
from headcheck.reference import Variant


def bound_normed_error(
    t: Tensor,
    error: Tensor,
    gain: Tensor | None,
    shift: Tensor | None,
    variant: Variant,
    precision: Precision,
) -> Tensor:
    """Bound the error of normed queries or keys, from their values and errors before the norm.

    With r one over the root of the mean square and y = t r, an error e of t moves r by at most r³
    mean(|t| e), so y by r (e + |y| mean(|y| e)). The number r itself is rounded, and sums d
    squares, of one head or of all heads. A mean that is subtracted first adds the errors of all
    numbers and its own rounding error.
    """
    if not variant.norm:
        return error
    growth = 2 * math.sqrt(count_averaged(t, variant)) * precision.ua
    if variant.norm == "layer":
        centred = t - variant.average(t)
        size = variant.average(t.abs())
        error = error + variant.average(error) + (growth + precision.u) * size
        t, error = centred, error + precision.u * centred.abs()
    r = variant.measure(t)
    y = t * r
    moved = r * error + y.abs() * variant.average(y.abs() * r * error)
    moved = moved + y.abs() * (growth + 4 * precision.u)
    factor = 1.0 if gain is None else (variant.gain_from + variant.lay_out(gain, t)).abs()
    normed = variant.normalise(t, gain, shift).abs()
    return moved * factor + precision.u * (2 * factor * y.abs() + normed)


def count_averaged(t: Tensor, variant: Variant) -> int:
    """Return over how many numbers a norm of queries or keys averages, at most."""
    return t.shape[-1] * (t.shape[-3] if variant.norm_over == "projection" else 1)


@dataclass(frozen=True, eq=False)
class AbsoluteNorm:
    """The norm of queries or keys, applied to absolute values of numbers and of gradients.

    With r one over the root of the mean square and y = t r, the gradient of t is r (g - y mean(y
    g)), where g is the gradient of y, and y is then multiplied by the gain.
    """

    unit: Tensor
    """the normed tensor, before the gain"""
    size: Tensor
    """r"""
    factor: Tensor
    shift: Tensor
    variant: Variant

    def apply(self) -> Tensor:
        return self.unit * self.factor + self.shift

    def bound_own(self, name: str, grad: Tensor, heads: int = 1) -> dict[str, Tensor]:
        """Return the gradients of the gain and the shift, given the gradient of the result.

        `heads` is the number of heads that have a gain of their own, if each has one.
        """
        parts = {f"gain_{name}": grad * self.unit, f"shift_{name}": grad}
        if self.variant.norm_over == "half":
            parts = {name: part.unflatten(-1, (2, -1)) for name, part in parts.items()}
        if self.variant.norm_over != "projection" and self.factor.dim() < 2:
            return {name: part.flatten(0, -2).sum(0) for name, part in parts.items()}
        summed = {name: part.sum(-2).flatten(0, -3).sum(0) for name, part in parts.items()}
        return {name: t.unflatten(0, (heads, -1)).sum(1).flatten() for name, t in summed.items()}

    def pull_back(self, grad: Tensor) -> Tensor:
        """Return the gradient of the norm's input, given the gradient of its result."""
        inner = grad * self.factor
        pulled = self.size * (inner + self.unit * self.variant.average(self.unit * inner))
        return pulled + self.variant.average(pulled) if self.variant.norm == "layer" else pulled


def make_absolute_norm(
    bound: Tensor, exact: Tensor, gain: Tensor | None, shift: Tensor | None, variant: Variant
) -> AbsoluteNorm | None:
    """Return the absolute norm for a bound and the exact values; None if there is no norm."""
    if not variant.norm:
        return None
    if variant.norm == "layer":
        exact = exact - variant.average(exact)
        bound = bound + variant.average(bound)
    size = variant.measure(exact)
    ones, zeros = torch.ones(()), torch.zeros(())
    factor = ones if gain is None else (variant.gain_from + variant.lay_out(gain, exact)).abs()
    moved = zeros if shift is None else variant.lay_out(shift, exact).abs()
    return AbsoluteNorm(bound * size, size, factor, moved, variant)
