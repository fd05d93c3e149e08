"""Faulty steps for causal queries that are the last of the tokens whose keys are given."""

from collections.abc import Callable

import torch
from torch import Tensor

from headcheck.properties.mistakes.pipeline import PipelineState


def begun_at(place: Callable[[int], int]) -> Callable[[PipelineState], Tensor | None]:
    """Move the first query to a place that a function computes from the number of earlier keys."""

    def permit(s: PipelineState) -> Tensor | None:
        if not s.inputs.causal:
            return s.inputs.may_attend
        everything = torch.ones(s.inputs.tokens, s.inputs.keys, dtype=torch.bool)
        return everything.tril(place(s.inputs.earlier))

    return permit


def always_aligned(s: PipelineState) -> Tensor:
    """Treat the queries as the last tokens, whether the statement asks for this or not."""
    everything = torch.ones(s.inputs.tokens, s.inputs.keys, dtype=torch.bool)
    return everything.tril(s.inputs.keys - s.inputs.tokens)


def among_themselves(s: PipelineState) -> Tensor | None:
    """The queries see each other as they should, but no key that precedes the first query."""
    seen = begun_at(lambda before: before)(s)
    if seen is not None:
        seen[:, : s.inputs.earlier] = False
    return seen
