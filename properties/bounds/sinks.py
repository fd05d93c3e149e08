"""Sinks as one more key and value, so that the theory of plain attention covers them."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from headcheck.reference import MultiHeadResult


def seat_sinks(exact: MultiHeadResult, sinks: Tensor | None) -> MultiHeadResult:
    """Return the result of attention with the sinks, if there are any, as one more key and value.

    The score of this key is not a product, and its value is zero, so the theory above still holds.
    """
    if sinks is None or exact.lost is None:
        return exact
    column = sinks[:, None, None].expand_as(exact.lost)
    return replace(
        exact,
        key=seat_one_more(exact.key),
        value=seat_one_more(exact.value),
        scores=torch.cat([exact.scores, column], dim=-1),
        weights=torch.cat([exact.weights, exact.lost], dim=-1),
        bias=None if exact.bias is None else torch.nn.functional.pad(exact.bias, (0, 1)),
    )


def seat_one_more(t: Float[Tensor, "*batch k d"]) -> Float[Tensor, "*batch k+1 d"]:
    """Append a key or a value of zero; appended to errors, this is an error of zero."""
    return torch.nn.functional.pad(t, (0, 0, 0, 1))


def seat_visible(may_attend: Tensor) -> Tensor:
    """Let all queries see one more key."""
    return torch.nn.functional.pad(may_attend, (0, 1), value=True)
