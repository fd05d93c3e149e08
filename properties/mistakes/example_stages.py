"""The results of pipeline steps that an example can show, in order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile

import torch
from torch import Tensor

from headcheck.properties.mistakes.pipeline import PipelineState


@dataclass(frozen=True)
class Stage:
    """A result of a pipeline that is shown: its name, and a function that reads it."""

    result: str
    take: Callable[[PipelineState], Tensor]
    """returns a tensor of heads, tokens and columns"""
    given: str
    take_given: Callable[[PipelineState], Tensor]


def _split_flat(part: int) -> Callable[[PipelineState], Tensor]:
    return lambda s: s.projected[part]


def _split_part(part: int) -> Callable[[PipelineState], Tensor]:
    return lambda s: s.split[part][0]


def _placed_part(part: int) -> Callable[[PipelineState], Tensor]:
    return lambda s: s.placed[part][0]


def _lay_side_by_side(tensors: Sequence[Tensor]) -> Tensor:
    """Join tensors of equal shapes side by side, and others one after the other as tokens."""
    return torch.cat(list(tensors), dim=0 if len({t.shape for t in tensors}) == 1 else 1)


def _appended_part(part: int) -> Callable[[PipelineState], Tensor]:
    return lambda s: s.appended[part][0]


def _list_stages(
    *,
    rotary: bool = False,
    latent: bool = False,
    crossed: bool = False,
    block: bool = False,
) -> Iterator[Stage]:
    """Yield the results that can be shown, in order."""
    parts = tuple(enumerate(("queries", "keys", "values")))
    if crossed:
        yield Stage(
            "tokens for q | k | v",
            lambda s: _lay_side_by_side(s.seen),
            "tokens | others",
            lambda s: _lay_side_by_side(s.inputs.sources[:2]),
        )
    yield Stage("tokens", lambda s: s.seen[0], "tokens", lambda s: s.inputs.x)
    read = "normed tokens" if block else "tokens"
    if block:
        yield Stage(read, lambda s: s.x, "tokens", lambda s: s.seen[0])
    for part, name in parts:
        yield Stage(name, _split_flat(part), read, lambda s: s.x)
    for part, name in reversed(parts):
        yield Stage(f"{name}, by head", _split_part(part), name, _split_flat(part))
    for part, name in parts[:2] if latent else ():
        yield Stage(f"{name} with both parts", _appended_part(part), name, _split_part(part))
    for part, name in parts if rotary else ():
        yield Stage(f"turned {name}", _placed_part(part), name, _appended_part(part))
    compared = _placed_part(0) if latent else _split_part(0)
    yield Stage("q·k", lambda s: s.raw_scores[0], "queries", compared)
    yield Stage("what is averaged", lambda s: s.value[0], "values", lambda s: s.split[2][0])
    yield Stage("scores", lambda s: s.scores[0], "q·k", lambda s: s.raw_scores[0])
    yield Stage("weights", lambda s: s.applied_weights[0], "scores", lambda s: s.scores[0])
    yield Stage(
        "outputs of the heads", lambda s: s.head_contexts[0], "values", lambda s: s.value[0]
    )
    yield Stage("merged", lambda s: s.merged, "outputs of the heads", lambda s: s.head_contexts[0])
    yield Stage("output layer's input", lambda s: s.context, "merged", lambda s: s.merged)
    if block:
        yield from _list_stages_around()
    else:
        yield Stage("output", lambda s: s.output, "merged", lambda s: s.context)


def _list_stages_around() -> Iterator[Stage]:
    """Yield the stages of a block that can be shown after its heads are merged."""
    added, forwarded = "tokens + attention", "feed-forward"
    yield Stage("attention", lambda s: s.attended, "merged", lambda s: s.context)
    yield Stage(added, lambda s: s.added, "attention", lambda s: s.attended)
    yield Stage("normed sums", lambda s: s.renormed, added, lambda s: s.added)
    yield Stage("hidden", lambda s: s.hidden, "normed sums", lambda s: s.renormed)
    yield Stage("activated", lambda s: s.active, "hidden", lambda s: s.hidden)
    yield Stage(forwarded, lambda s: s.forwarded, "activated", lambda s: s.active)
    yield Stage("output", lambda s: s.output, forwarded, lambda s: s.forwarded)


STAGES = tuple(_list_stages())
PRODUCTS = {"q·k": "f(q)·f(k)"}
FEATURED_STAGES = tuple(
    replace(
        each,
        result=PRODUCTS.get(each.result, each.result),
        given=PRODUCTS.get(each.given, each.given),
    )
    for each in STAGES
)
"""the stages if queries and keys are compared by products of features"""
CROSSED_STAGES = tuple(_list_stages(crossed=True))
ROTARY_STAGES = tuple(_list_stages(rotary=True))
BLOCK_STAGES = tuple(_list_stages(block=True))
LATENT_STAGES = tuple(_list_stages(rotary=True, latent=True))
SUMMED_STAGES = (
    *STAGES,
    Stage("logsumexp", lambda s: s.answer[-1][0].unsqueeze(-1), "scores", lambda s: s.scores[0]),
)
"""the stages if the log-sum-exp is also returned"""
LATE_STAGES = tuple(dropwhile(lambda stage: stage.result != "weights", STAGES))
"""the stages for a mistake in the weights that the average uses, which may cancel an earlier
mistake
"""
DROPPED_STAGES = tuple(
    Stage("weights", stage.take, "before dropout", lambda s: s.weights[0])
    if stage.result == "weights"
    else stage
    for stage in STAGES
)
