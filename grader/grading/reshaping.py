"""Where every number goes when heads are split and merged, rightly and as a mistake does it.

Nothing is drawn by hand for a mistake: its own step of the recipe is applied to numbered elements,
and the numbers that come out say where each came from. Believed only if the step does nothing but
move: with other numbers it must give the same places.
"""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from grader.report.records import LayoutEvidence
from properties.mistakes.pipeline import (
    CORRECT,
    SHAPE_ERRORS,
    AttentionInputs,
    Pipeline,
    PipelineState,
)
from reference import Parameters

TOKENS, HEADS, HEAD_DIM = 3, 2, 3
"""The sizes that are shown. Heads and their width differ, so that exchanging them is seen."""
WIDTH = HEADS * HEAD_DIM
NUMEL_PER_PART = TOKENS * WIDTH
"""how many numbers there are of queries; as many of keys and of values"""
MAX_NUMEL = 64
"""how many numbers one picture shows"""
PARTS = ("queries", "keys", "values")


def trace_layouts(pipeline: Pipeline) -> tuple[LayoutEvidence, ...]:
    """What becomes of the numbers where a recipe splits or merges the heads wrongly."""
    return tuple(_iter_layouts(pipeline))


def _iter_layouts(pipeline: Pipeline) -> Iterator[LayoutEvidence]:
    if pipeline.split is not CORRECT.split:
        for part, name in enumerate(PARTS):
            found = _compare_layouts(
                "split", name, _trace_split(CORRECT, part), _trace_split(pipeline, part)
            )
            if found is not None:
                yield found
                break
    if pipeline.merge is not CORRECT.merge:
        # After its own split: a merge may undo what the split did.
        found = _compare_layouts("merge", "heads", _trace_merge(CORRECT), _trace_merge(pipeline))
        if found is not None:
            yield found


def _compare_layouts(
    step: str, of: str, expected: Tensor | None, got: Tensor | None
) -> LayoutEvidence | None:
    if expected is None or got is None or torch.equal(expected, got):
        return None
    return LayoutEvidence(
        step, of, TOKENS, HEADS, HEAD_DIM, _find_origins(expected, of), _find_origins(got, of)
    )


def _trace_split(pipeline: Pipeline, part: int) -> Tensor | None:
    """The numbers of the elements that queries, keys or values of each head are made of."""
    return _trace_positions(lambda s: pipeline.split(s)[part])


def _trace_merge(pipeline: Pipeline) -> Tensor | None:
    """The numbers of the elements that the rows of the context are made of."""

    def merge_split(s: PipelineState) -> Tensor:
        s.split = pipeline.split(s)
        s.head_contexts = s.split[2]  # where every token attends to itself alone
        return pipeline.merge(s).unsqueeze(0)

    return _trace_positions(merge_split)


def _trace_positions(
    step: Callable[[PipelineState], Tensor],
) -> Float[Tensor, "blocks rows columns"] | None:
    """Which element stands where after a step; zero where none does.

    None if the step does more than move elements, or cannot be drawn.
    """
    numbers = torch.arange(1, 3 * NUMEL_PER_PART + 1, dtype=torch.float64)
    others = torch.cat([torch.zeros(1), numbers.flip(0) ** 2]).to(torch.float64)
    try:
        found, check = step(_make_steps(numbers)), step(_make_steps(others[1:]))
    except SHAPE_ERRORS:
        return None
    drawable = found.dim() == 4 and found.shape[0] == 1 and 0 < found.numel() <= MAX_NUMEL
    if not drawable or not bool(((found == found.round()) & (found >= 0)).all()):
        return None
    if not bool(found.any()) or float(found.max()) > 3 * NUMEL_PER_PART:
        return None
    return found[0] if torch.equal(others[found.long()], check) else None


def _make_steps(numbers: Tensor) -> PipelineState:
    """The state in which the heads are split: these are queries, keys and values."""
    weight = torch.zeros(WIDTH, WIDTH, dtype=torch.float64)
    x = torch.zeros(1, TOKENS, WIDTH, dtype=torch.float64)
    parameters = Parameters(W_q=weight, W_k=weight, W_v=weight)
    steps = PipelineState(AttentionInputs(x, parameters, HEADS, None, 1.0, TOKENS))
    steps.x = x
    q, k, v = numbers.reshape(3, 1, TOKENS, WIDTH).unbind(0)
    steps.projected = q, k, v
    return steps


def _find_origins(places: Tensor, of: str) -> tuple[tuple[tuple[tuple[int, ...], ...], ...], ...]:
    own = PARTS.index(of) if of in PARTS else 2
    return tuple(
        tuple(tuple(_find_origin(int(number), own) for number in row) for row in block)
        for block in places.tolist()
    )


def _find_origin(number: int, own: int) -> tuple[int, ...]:
    """Token, head and channel of an element, and which part it is of if that is another one."""
    if number == 0:
        return ()
    part, place = divmod(number - 1, NUMEL_PER_PART)
    token, column = divmod(place, WIDTH)
    origin = (token, *divmod(column, HEAD_DIM))
    return origin if part == own else (*origin, part)
