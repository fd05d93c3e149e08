"""Mistakes in a window: how many earlier tokens a token sees."""

from collections.abc import Callable

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import define_mistake, require
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
LINE = "only compare:(?i)win | only triangle:(?i)win"

WINDOWS = require(
    Capability.WINDOW,
    define_mistake(
        "no_window",
        "The window hides nothing: every token sees itself and all tokens before it.",
        f"unused:(?i)win | {LINE}",
    ).simulated_by(permit=everything_before),
    define_mistake(
        "window_too_short",
        "A token sees one key too few: it should see itself and the window − 1 tokens before it.",
        LINE,
    ).simulated_by(permit=of_length(-1)),
    define_mistake(
        "window_too_long",
        "A token sees one key too many: besides itself it should see only the window − 1 tokens "
        "before it.",
        LINE,
    ).simulated_by(permit=of_length(1)),
    define_mistake(
        "window_to_both_sides",
        "The window lies around each token, half of it in the future; it should end at the token.",
        LINE,
    ).simulated_by({"permit": to_both_sides}, {"permit": centred}),
    define_mistake(
        "window_inverted",
        "The window is inverted: tokens in it are hidden, and tokens before it are visible.",
        LINE,
    ).simulated_by(permit=beyond_the_window),
)
