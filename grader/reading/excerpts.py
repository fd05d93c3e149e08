"""Excerpts: the lines of a submission around given positions, as plain data for JSON."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headcheck.grader.reading.cells import SubmissionSource

MAX_WHOLE_CELL = 20
"""a cell of at most this many lines is shown whole"""
CONTEXT_LINES = 8
"""number of lines shown before and after a position in a longer cell"""
MAX_LINES = 160
"""at most this many lines are shown in total"""
MAX_LINE_LENGTH, MAX_MARKED_LENGTH = 240, 2000
"""at most this many characters are shown of a line, and of a marked line; the second limit is
larger because the mistake may be anywhere in a marked line"""


@dataclass(frozen=True, slots=True)
class SourceLines:
    """Consecutive lines of a cell, or of the module; `line` is the number of the first."""

    cell: int | None
    line: int
    text: str


def extract_excerpts(
    source: SubmissionSource, positions: Iterable[tuple[int | None, int]]
) -> list[SourceLines]:
    """Return the lines around these positions (pairs of a cell and a line), in source order."""
    marked: dict[int | None, list[int]] = {}
    for number, line in positions:
        marked.setdefault(number, []).append(line)
    excerpts: list[SourceLines] = []
    room = MAX_LINES
    for cell in source.cells:
        all_lines = cell.text.split("\n")
        for first, last in _iter_runs(marked.get(cell.number, ()), len(all_lines)):
            shown = all_lines[first - 1 : min(last, first - 1 + room)]
            room -= len(shown)
            if shown:
                wanted = marked[cell.number]
                limits = (get_line_limit(is_marked=n in wanted) for n in itertools.count(first))
                lines = (each[:limit] for each, limit in zip(shown, limits, strict=False))
                # UTF-8 cannot encode lone surrogates.
                text = "\n".join(lines).encode(errors="replace").decode()
                excerpts.append(SourceLines(cell.number, first, text))
    return excerpts


def get_line_limit(*, is_marked: bool) -> int:
    """Return how many characters of a line are shown."""
    return MAX_MARKED_LENGTH if is_marked else MAX_LINE_LENGTH


def _iter_runs(marked: Sequence[int], length: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of each run to show; the runs contain every marked line."""
    todo = sorted({line for line in marked if 1 <= line <= length})
    if todo and length <= MAX_WHOLE_CELL:
        yield 1, length
        return
    while todo:
        first, last = max(1, todo[0] - CONTEXT_LINES), todo[0]
        while todo and todo[0] - CONTEXT_LINES <= last + CONTEXT_LINES:
            last = todo.pop(0)
        yield first, min(length, last + CONTEXT_LINES)
