"""Faulty steps that decide which tokens a window shows."""

from collections.abc import Callable

import torch
from torch import Tensor

from headcheck.properties.mistakes.pipeline import PipelineState

Permit = Callable[[PipelineState], Tensor | None]
Shows = Callable[[Tensor, Tensor, int], Tensor]
"""returns whether the query at i sees the key at j, given i, j and the width of the window"""


def shown(shows: Shows) -> Permit:
    """If there is a window, show keys by a function of the places of queries and keys."""

    def permit(s: PipelineState) -> Tensor | None:
        if not s.inputs.window:
            return s.inputs.may_attend
        queries, keys = torch.arange(s.inputs.tokens), torch.arange(s.inputs.keys)
        return shows(queries[:, None], keys, s.inputs.window)

    return permit


def of_length(more: int) -> Permit:
    """Make the window longer than the statement's by this many tokens."""
    return shown(lambda i, j, window: (j <= i) & (i - j < window + more))


everything_before = shown(lambda i, j, window: j <= i)
to_both_sides = shown(lambda i, j, window: (i - j).abs() < window)
centred = shown(lambda i, j, window: (i - j).abs() <= window // 2)
beyond_the_window = shown(lambda i, j, window: i - j >= window)
own_block = shown(lambda i, j, window: (j <= i) & (i // window == j // window))
only_the_beginning = shown(lambda i, j, window: (j <= i) & (j < window))


def only_the_end(s: PipelineState) -> Tensor | None:
    """Show every token the last tokens of the sequence."""
    return shown(lambda i, j, window: (j <= i) & (j >= s.inputs.tokens - window))(s)
