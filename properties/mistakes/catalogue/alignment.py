"""Mistakes in the positions of causal queries if there are more keys than queries."""

from collections.abc import Callable

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import define_mistake, require
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


ALIGNMENT = require(
    Capability.ALIGNED,
    define_mistake(
        "mask_at_the_top_left",
        "The causal mask begins at the first key: the first query sees that one alone, although "
        "other keys come before it.",
    ).simulated_by(permit=begun_at(lambda before: 0)),
    define_mistake(
        "earlier_keys_hidden",
        "The keys before the first query are hidden: the queries see only each other.",
    ).simulated_by(permit=among_themselves),
)

OPTION = require(
    Capability.CAUSAL_OPTION,
    define_mistake(
        "always_causal",
        "Later tokens are hidden in every call, even if `causal` is False.",
        "unused:causal",
    ).simulated_by(permit=always_aligned),
)
