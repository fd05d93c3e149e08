"""Definitions in cells that are not run, where a student may have put an answer."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headcheck.grader.reading.cells import list_cells, number_code_cells, parse_notebook

MAX_FOUND = 8
"""at most this many cells are named"""
TOLD = {"raw": "raw cell", "markdown": "text cell"}
_DEFINED = re.compile(r"^(?:class|def)[ \t]+([A-Za-z_]\w{0,99})", re.MULTILINE)
_WRITTEN = re.compile(r"\s*%%(?:writefile|file)\b")


@dataclass(frozen=True, slots=True)
class UnreadCode:
    """A cell that defines something and is not run."""

    cell: int | None
    """its number; None for a text cell, beside which Jupyter shows none"""
    where: str
    why: str
    names: tuple[str, ...]


def find_unread_code(data: bytes) -> list[UnreadCode]:
    """Return the cells of a notebook that define something and are not run. Raises Unreadable."""
    found = _iter_unread(data)
    return [each for each, _ in zip(found, range(MAX_FOUND), strict=False)]


def _iter_unread(data: bytes) -> Iterator[UnreadCode]:
    cells = list_cells(parse_notebook(data))
    numbers, last = number_code_cells(cells), "above the first code cell"
    for at, cell in enumerate(cells):
        if not isinstance(cell, dict):
            continue
        source = cell.get("source", cell.get("input", ""))
        lines = source if isinstance(source, list) else [source]
        text = "".join(line for line in lines if isinstance(line, str))
        number, kind = numbers.get(at), TOLD.get(str(cell.get("cell_type")))
        if number is not None:
            last = f"below cell {number}"
        names = tuple(dict.fromkeys(_DEFINED.findall(text)))[:MAX_FOUND]
        if names and _WRITTEN.match(text) and number is not None:
            why = "only writes a file (%%writefile) and is not run"
            yield UnreadCode(number, f"cell {number}", why, names)
        elif names and kind is not None:
            yield UnreadCode(None, f"the {kind} {last}", "is not run", names)
