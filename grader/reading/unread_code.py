"""Definitions in cells that are not run, where a student may have put an answer."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headcheck.grader.reading.cells import list_cells, parse_notebook

MAX_FOUND = 8
"""at most this many cells are named"""
TOLD = {"raw": "is a raw cell", "markdown": "is a text cell"}
_DEFINED = re.compile(r"^(?:class|def)[ \t]+([A-Za-z_]\w{0,99})", re.MULTILINE)
_WRITTEN = re.compile(r"\s*%%(?:writefile|file)\b")


@dataclass(frozen=True, slots=True)
class UnreadCode:
    """A cell that defines something and is not run."""

    cell: int
    why: str
    names: tuple[str, ...]


def find_unread_code(data: bytes) -> list[UnreadCode]:
    """Return the cells of a notebook that define something and are not run. Raises Unreadable."""
    found = _iter_unread(data)
    return [each for each, _ in zip(found, range(MAX_FOUND), strict=False)]


def _iter_unread(data: bytes) -> Iterator[UnreadCode]:
    for number, cell in enumerate(list_cells(parse_notebook(data)), start=1):
        if not isinstance(cell, dict):
            continue
        source = cell.get("source", cell.get("input", ""))
        lines = source if isinstance(source, list) else [source]
        text = "".join(line for line in lines if isinstance(line, str))
        why = TOLD.get(str(cell.get("cell_type")), "")
        if _WRITTEN.match(text):
            why = "only writes a file (%%writefile)"
        if why and (names := _DEFINED.findall(text)):
            yield UnreadCode(number, why, tuple(dict.fromkeys(names))[:MAX_FOUND])
