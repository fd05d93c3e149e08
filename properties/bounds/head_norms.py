"""The errors of a norm of what heads give, and its absolute gradients.

Averages may cancel where values have both signs, or where maps are subtracted. So what a norm reads
may be small beside the sum of its absolute terms, and with it the errors that it reads. An error e
of the average t moves one over its size, r, by at most r mean(|y| r e), where y = t r. If e is a
share of a sum b of absolute terms, then r is off by m = mean(|y| r b) times this share. Wherever m
is more than one, numbers that are multiplied by r have this larger share.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from headcheck.properties.bounds.norms import AbsoluteNorm, bound_normed_error, make_absolute_norm
from headcheck.properties.bounds.precision import RoundedAttention
from headcheck.reference import MultiHeadResult, Parameters, Variant, merge_heads, split_heads


def bound_head_norm_error(context: Tensor, of: RoundedAttention) -> Tensor:
    """Propagate the error of each head's averages through their norm, and merge the heads."""
    if (norm := of.variant.head_norm) is None:
        return merge_heads(context)
    own, averages = (of.p.gain_heads, of.p.shift_heads), of.exact.weights @ of.exact.value
    error = bound_normed_error(averages, context, *own, norm.norms, of.precision)
    rounded = of.precision.u * norm.norms.normalise(averages, *own).abs()
    return merge_heads(norm.factor * (error + rounded))


@dataclass(frozen=True, eq=False)
class AbsoluteHeads:
    """What heads give, applied to absolute values of numbers and of gradients."""

    averages: Tensor
    """the sums of absolute terms of each head's averages"""
    norm: AbsoluteNorm | None = None
    factor: float = 1.0

    @property
    def merged(self) -> Tensor:
        """The result, with the heads side by side."""
        given = self.averages if self.norm is None else self.factor * self.norm.apply()
        return merge_heads(given)

    def enter(self, grad: Tensor, heads: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the gradients of each head's averages, and of the norm's parameters."""
        into = split_heads(grad, heads)
        if self.norm is None:
            return into, {}
        into = self.factor * into
        return self.norm.pull_back(into), self.norm.bound_own("heads", into, heads)


def make_absolute_heads(
    weights: Tensor, value: Tensor, parameters: Parameters, exact: MultiHeadResult, variant: Variant
) -> AbsoluteHeads:
    """Bound what heads give by the absolute values of all weights and values."""
    averages = weights @ value
    if variant.head_norm is None:
        return AbsoluteHeads(averages)
    norms, true = variant.head_norm.norms, (exact.weights @ exact.value).detach()
    own = parameters.gain_heads, parameters.shift_heads
    norm = make_absolute_norm(averages, true, *own, norms)
    assert norm is not None, "there is a norm"
    centred = true - norms.average(true) if norms.norm == "layer" else true
    share = norms.average(norm.unit * (centred * norm.size).abs()).clamp(min=1)
    loose = replace(norm, unit=norm.unit * share, size=norm.size * share)
    return AbsoluteHeads(averages, loose, variant.head_norm.factor)
