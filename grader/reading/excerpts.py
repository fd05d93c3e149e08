"""The lines of a submission around places that somebody is to look at. Plain data for JSON."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from grader.reading.cells import Source

WHOLE = 20
"""a cell of so many lines is shown whole"""
AROUND = 8
"""lines before and after a place, of a longer one"""
LINES = 160
"""how many lines are shown in all"""
WIDTH = 240
"""how many characters of a line are shown"""


@dataclass(frozen=True, slots=True)
class Lines:
    """Neighbouring lines of a cell, or of the module; `line` is the number of the first."""

    cell: int | None
    line: int
    text: str


def excerpts(source: Source, places: Iterable[tuple[int | None, int]]) -> list[Lines]:
    """The lines around these places, each a cell and a line of it; in the order of the source."""
    wanted: dict[int | None, list[int]] = {}
    for cell, line in places:
        wanted.setdefault(cell, []).append(line)
    found: list[Lines] = []
    room = LINES
    for each in source.cells:
        lines = each.text.split("\n")
        for first, last in _runs(wanted.get(each.number, ()), len(lines)):
            shown = lines[first - 1 : min(last, first - 1 + room)]
            room -= len(shown)
            if shown:
                found.append(Lines(each.number, first, "\n".join(map(_sendable, shown))))
    return found


def _runs(marked: Sequence[int], length: int) -> Iterator[tuple[int, int]]:
    """First and last lines to show, so that every marked one is among them."""
    there = sorted({line for line in marked if 1 <= line <= length})
    if there and length <= WHOLE:
        yield 1, length
        return
    while there:
        first, last = max(1, there[0] - AROUND), there[0]
        while there and there[0] - AROUND <= last + AROUND:
            last = there.pop(0)
        yield first, min(length, last + AROUND)


def _sendable(line: str) -> str:
    """The beginning of a line. Half of a surrogate pair is no character, and could not be sent."""
    return line[:WIDTH].encode(errors="replace").decode()
