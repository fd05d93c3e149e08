"""Map a line of a notebook cell to the line of the notebook's file, for line-based viewers."""

import json
import re
from collections.abc import Sequence
from typing import Any

from headcheck.grader.reading.cells import Unreadable, list_cells, number_code_cells, parse_notebook

JSON_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def find_file_line(data: bytes, cell: int, line: int) -> int | None:
    """Return the file's line that holds a line of a numbered cell, from 1; None if unknown.

    A cell's source is a list of strings, usually one for each line, or a single string, which
    takes one line of the file.
    """
    if line < 1:
        return None
    strings: list[re.Match[str]] = []

    def number_string(match: re.Match[str]) -> str:
        strings.append(match)
        return f'"{len(strings) - 1}"'

    try:
        text = data.decode("utf-8")
        # Each string is replaced by its number, which leads back to its position in the text.
        notebook = json.loads(JSON_STRING.sub(number_string, text))
        numbers = number_code_cells(list_cells(parse_notebook(data)))
        at = next(place for place, number in numbers.items() if number == cell)
        source = _get_member(_get_member(notebook, "cells", strings)[at], "source", strings)
        listed = [source] if isinstance(source, str) else source
        pieces = [strings[int(n, 10)] for n in listed]  # what was a number before is refused
        offset = _find_offset(pieces, line)
    except (LookupError, RecursionError, StopIteration, TypeError, Unreadable, ValueError):
        return None
    return None if offset is None else text.count("\n", 0, offset) + 1


def _get_member(numbered: dict[str, Any], name: str, strings: Sequence[re.Match[str]]) -> Any:
    """Return an object's member of this name; if there are several, the last one, as in JSON."""
    return [v for k, v in numbered.items() if json.loads(strings[int(k)][0]) == name][-1]


def _find_offset(pieces: Sequence[re.Match[str]], line: int) -> int | None:
    """Return the offset of the string in which a line of the cell begins."""
    before = 1
    for piece in pieces:
        value = json.loads(piece[0])
        if not value:
            continue
        after = before + value.count("\n")
        # A piece that ends with a line break holds nothing of the line after it.
        if before == line or before < line < after or (line == after and value[-1:] != "\n"):
            return piece.start()
        before = after
    return None
