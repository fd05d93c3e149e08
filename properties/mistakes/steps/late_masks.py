"""Faulty steps that apply the mask to the weights after the softmax."""

from collections.abc import Callable

from torch import Tensor

from headcheck.properties.mistakes.pipeline import PipelineState

Divisor = Callable[[Tensor], Tensor]
"""returns the divisors of all rows, given their sums"""


def hidden_zeroed(s: PipelineState) -> Tensor:
    return s.weights if s.visible is None else s.weights * s.visible


def renormalised(change: Divisor = lambda sums: sums, dim: int = -1) -> Callable[..., Tensor]:
    """Divide the remaining weights by a function of their sums along a dimension."""

    def use(s: PipelineState) -> Tensor:
        if s.visible is None:
            return s.weights
        kept = hidden_zeroed(s)
        return kept / change(kept.sum(dim=dim, keepdim=True))

    return use


def plus(number: float) -> Divisor:
    return lambda sums: sums + number


def at_least(number: float) -> Divisor:
    return lambda sums: sums.clamp(min=number)


hidden_zeroed_and_renormalised = renormalised()


def renormalised_without_nan(s: PipelineState) -> Tensor:
    return hidden_zeroed_and_renormalised(s).nan_to_num()
