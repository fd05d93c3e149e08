"""The lines of a submission around places that somebody is to look at. Plain data for JSON."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from grader.reading.cells import SubmissionSource

MAX_WHOLE_CELL = 20
"""a cell of so many lines is shown whole"""
CONTEXT_LINES = 8
"""lines before and after a place, of a longer one"""
MAX_LINES = 160
"""how many lines are shown in all"""
MAX_LINE_LENGTH = 240
"""how many characters of a line are shown"""


@dataclass(frozen=True, slots=True)
class SourceLines:
    """Neighbouring lines of a cell, or of the module; `line` is the number of the first."""

    cell: int | None
    line: int
    text: str


def extract_excerpts(
    source: SubmissionSource, places: Iterable[tuple[int | None, int]]
) -> list[SourceLines]:
    """The lines around these places, each a cell and a line of it; in the order of the source."""
    wanted: dict[int | None, list[int]] = {}
    for cell, line in places:
        wanted.setdefault(cell, []).append(line)
    found: list[SourceLines] = []
    room = MAX_LINES
    for each in source.cells:
        lines = each.text.split("\n")
        for first, last in _iter_runs(wanted.get(each.number, ()), len(lines)):
            shown = lines[first - 1 : min(last, first - 1 + room)]
            room -= len(shown)
            if shown:
                found.append(SourceLines(each.number, first, "\n".join(map(_truncate_line, shown))))
    return found


def _iter_runs(marked: Sequence[int], length: int) -> Iterator[tuple[int, int]]:
    """First and last lines to show, so that every marked one is among them."""
    there = sorted({line for line in marked if 1 <= line <= length})
    if there and length <= MAX_WHOLE_CELL:
        yield 1, length
        return
    while there:
        first, last = max(1, there[0] - CONTEXT_LINES), there[0]
        while there and there[0] - CONTEXT_LINES <= last + CONTEXT_LINES:
            last = there.pop(0)
        yield first, min(length, last + CONTEXT_LINES)


def _truncate_line(line: str) -> str:
    """The beginning of a line. Half of a surrogate pair is no character, and could not be sent."""
    return line[:MAX_LINE_LENGTH].encode(errors="replace").decode()
