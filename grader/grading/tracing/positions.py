"""Lines of a submission, in a notebook with their cells: their order, and their names."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from headcheck.properties.counting import join_words

Position = tuple[int | None, int]
MAX_SPAN = 11
"""the most lines between what is right and the next step if something was left out there"""


def sort_positions(positions: Iterable[Position]) -> tuple[Position, ...]:
    """Return positions without repetitions, in the order of the source."""
    return tuple(sorted(set(positions), key=lambda at: (at[0] or 0, at[1])))


def list_between(before: Iterable[Position], after: Iterable[Position]) -> set[Position]:
    """Return the lines from the last position before, to each of those after, if it is near."""
    begins, found = list(before), set[Position]()
    for cell, line in after:
        first = max((at[1] for at in begins if at[0] == cell and at[1] <= line), default=line)
        if line - first <= MAX_SPAN:
            found |= {(cell, each) for each in range(first, line + 1)}
    return found


def name_lines(positions: Sequence[Position]) -> str:
    """Name lines, in a notebook with their cells: "lines 3 and 5", "lines 3 to 6 and 9"."""
    cells: dict[int | None, list[int]] = {}
    for cell, line in positions:
        cells.setdefault(cell, []).append(line)
    return join_words([_name_in_cell(cell, lines) for cell, lines in cells.items()] or [""])


def _name_in_cell(cell: int | None, lines: Sequence[int]) -> str:
    parts = [str(a) if a == b else f"{a} to {b}" for a, b in _find_runs(sorted(set(lines)))]
    where = "" if cell is None else f"cell {cell}, "
    return f"{where}line{'s' if len(set(lines)) > 1 else ''} {join_words(parts)}"


def _find_runs(lines: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of neighbouring lines; two neighbours are two runs."""
    for _, run in groupby(enumerate(lines), lambda at: at[1] - at[0]):
        found = [line for _, line in run]
        yield from zip(found, found, strict=True) if len(found) == 2 else [(found[0], found[-1])]
