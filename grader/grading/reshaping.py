"""Trace every number through the split and the merge of heads, done correctly or with a mistake.

No layout is written by hand: a step of the pipeline is applied to numbered elements, and the
numbers in the result show where each element came from. A trace counts only if the step does
nothing but move elements. To check this, the step is repeated with different numbers, which must
end up in the same positions.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from headcheck.grader.report.records import LayoutEvidence
from headcheck.properties.mistakes.pipeline import (
    CORRECT,
    SHAPE_ERRORS,
    AttentionInputs,
    Pipeline,
    PipelineState,
)
from headcheck.reference import Parameters

TOKENS, HEADS, HEAD_DIM = 3, 2, 3
"""The sizes of the example. The number of heads and the width of a head differ, so that swapping
the two is visible."""
WIDTH = HEADS * HEAD_DIM
NUMEL_PER_PART = TOKENS * WIDTH
"""how many numbers the queries consist of; keys and values have the same size"""
MAX_NUMEL = 64
"""the maximum number of elements that one figure shows"""
PARTS = ("queries", "keys", "values")


def trace_layouts(pipeline: Pipeline) -> tuple[LayoutEvidence, ...]:
    """Return the layouts after the steps in which a pipeline splits or merges heads wrongly."""
    layouts: list[LayoutEvidence | None] = []
    if pipeline.split is not CORRECT.split:
        splits = (
            _compare_layouts("split", of, _trace_split(CORRECT, i), _trace_split(pipeline, i))
            for i, of in enumerate(PARTS)
        )
        layouts.append(next(filter(None, splits), None))
    if pipeline.merge is not CORRECT.merge:
        # Merge after the pipeline's own split, since a merge may undo what the split did.
        correct, traced = _trace_merge(CORRECT), _trace_merge(pipeline)
        layouts.append(_compare_layouts("merge", "heads", correct, traced))
    return tuple(filter(None, layouts))


def _compare_layouts(
    step: str, of: str, expected: Tensor | None, got: Tensor | None
) -> LayoutEvidence | None:
    if expected is None or got is None or torch.equal(expected, got):
        return None
    return LayoutEvidence(
        step, of, TOKENS, HEADS, HEAD_DIM, _find_origins(expected, of), _find_origins(got, of)
    )


def _trace_split(pipeline: Pipeline, part: int) -> Tensor | None:
    """Return the numbers of the elements in the queries, keys or values of each head."""
    return _trace_positions(lambda s: pipeline.split(s)[part])


def _trace_merge(pipeline: Pipeline) -> Tensor | None:
    """Return the numbers of the elements in the rows of the context."""

    def merge_split(s: PipelineState) -> Tensor:
        s.split = pipeline.split(s)
        s.head_contexts = s.split[2]  # as if every token attended to itself alone
        return pipeline.merge(s).unsqueeze(0)

    return _trace_positions(merge_split)


def _trace_positions(
    step: Callable[[PipelineState], Tensor],
) -> Float[Tensor, "blocks rows columns"] | None:
    """Return the number of the element in each position after a step, or zero for no element.

    Returns None if the step does more than move elements, or if the result cannot be drawn.
    """
    numbers = torch.arange(1, 3 * NUMEL_PER_PART + 1, dtype=torch.float64)
    others = torch.cat([torch.zeros(1), numbers.flip(0) ** 2]).to(torch.float64)
    try:
        traced, check = step(_make_state(numbers)), step(_make_state(others[1:]))
    except SHAPE_ERRORS:
        return None
    drawable = traced.dim() == 4 and traced.shape[0] == 1 and 0 < traced.numel() <= MAX_NUMEL
    if not drawable or not bool(((traced == traced.round()) & (traced >= 0)).all()):
        return None
    if not bool(traced.any()) or float(traced.max()) > 3 * NUMEL_PER_PART:
        return None
    return traced[0] if torch.equal(others[traced.long()], check) else None


def _make_state(numbers: Tensor) -> PipelineState:
    """Return the state before the split, with these numbers as queries, keys and values."""
    weight = torch.zeros(WIDTH, WIDTH, dtype=torch.float64)
    x = torch.zeros(1, TOKENS, WIDTH, dtype=torch.float64)
    parameters = Parameters(W_q=weight, W_k=weight, W_v=weight)
    state = PipelineState(AttentionInputs(x, parameters, HEADS, None, 1.0, TOKENS))
    state.seen = state.entered = x, x, x
    q, k, v = numbers.reshape(3, 1, TOKENS, WIDTH).unbind(0)
    state.projected = state.normed_whole = q, k, v
    return state


def _find_origins(numbers: Tensor, of: str) -> tuple[tuple[tuple[tuple[int, ...], ...], ...], ...]:
    own = PARTS.index(of) if of in PARTS else 2
    return tuple(
        tuple(tuple(_find_origin(int(number), own) for number in row) for row in block)
        for block in numbers.tolist()
    )


def _find_origin(number: int, own: int) -> tuple[int, ...]:
    """Return the token, head and channel of an element, and its part unless the part is `own`."""
    if number == 0:
        return ()
    part, position = divmod(number - 1, NUMEL_PER_PART)
    token, column = divmod(position, WIDTH)
    origin = (token, *divmod(column, HEAD_DIM))
    return origin if part == own else (*origin, part)
