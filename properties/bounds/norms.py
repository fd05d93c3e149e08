"""The errors of norms, and their absolute gradients.

The same functions serve the norms of queries and keys, and those of a block's tokens.
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
    squares. A mean that is subtracted first adds the errors of all numbers and its own rounding
    error.
    """
    if not variant.norm:
        return error
    growth = 2 * math.sqrt(t.shape[-1]) * precision.ua
    if variant.norm == "layer":
        centred = t - t.mean(-1, keepdim=True)
        size = t.abs().mean(-1, keepdim=True)
        error = error + error.mean(-1, keepdim=True) + (growth + precision.u) * size
        t, error = centred, error + precision.u * centred.abs()
    r = variant.measure(t)
    y = t * r
    moved = r * error + y.abs() * (y.abs() * r * error).mean(-1, keepdim=True)
    moved = moved + y.abs() * (growth + 4 * precision.u)
    factor = 1.0 if gain is None else (variant.gain_from + gain).abs()
    normed = variant.normalise(t, gain, shift).abs()
    return moved * factor + precision.u * (2 * factor * y.abs() + normed)


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
    centred: bool

    def apply(self) -> Tensor:
        return self.unit * self.factor + self.shift

    def bound_own(self, name: str, grad: Tensor) -> dict[str, Tensor]:
        """Return the gradients of the gain and the shift, given the gradient of the result."""
        gain = (grad * self.unit).flatten(0, -2).sum(0)
        return {f"gain_{name}": gain, f"shift_{name}": grad.flatten(0, -2).sum(0)}

    def pull_back(self, grad: Tensor) -> Tensor:
        """Return the gradient of the norm's input, given the gradient of its result."""
        inner = grad * self.factor
        pulled = self.size * (inner + self.unit * (self.unit * inner).mean(-1, keepdim=True))
        return pulled + pulled.mean(-1, keepdim=True) if self.centred else pulled


def make_absolute_norm(
    bound: Tensor, exact: Tensor, gain: Tensor | None, shift: Tensor | None, variant: Variant
) -> AbsoluteNorm | None:
    """Return the absolute norm for a bound and the exact values; None if there is no norm."""
    if not variant.norm:
        return None
    centred = variant.norm == "layer"
    if centred:
        exact = exact - exact.mean(-1, keepdim=True)
        bound = bound + bound.mean(-1, keepdim=True)
    size = variant.measure(exact)
    factor = torch.ones(()) if gain is None else (variant.gain_from + gain).abs()
    return AbsoluteNorm(
        bound * size, size, factor, torch.zeros(()) if shift is None else shift.abs(), centred
    )
