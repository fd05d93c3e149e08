"""Faulty steps where causal queries are the last of the tokens whose keys are given."""

from collections.abc import Callable

import torch
from torch import Tensor

from headcheck.properties.mistakes.pipeline import PipelineState


def begun_at(place: Callable[[int], int]) -> Callable[[PipelineState], Tensor | None]:
    """Move the first query to a place that a function gives, from the number of earlier keys."""

    def permit(s: PipelineState) -> Tensor | None:
        if not s.inputs.causal:
            return s.inputs.may_attend
        everything = torch.ones(s.inputs.tokens, s.inputs.keys, dtype=torch.bool)
        return everything.tril(place(s.inputs.earlier))

    return permit


def always_aligned(s: PipelineState) -> Tensor:
    """The queries are the last tokens, whether the statement asks for it or not."""
    everything = torch.ones(s.inputs.tokens, s.inputs.keys, dtype=torch.bool)
    return everything.tril(s.inputs.keys - s.inputs.tokens)


def among_themselves(s: PipelineState) -> Tensor | None:
    """The queries see each other as they should, and no key before."""
    seen = begun_at(lambda before: before)(s)
    if seen is not None:
        seen[:, : s.inputs.earlier] = False
    return seen
