"""Where a line of a notebook's cell stands in the notebook's file, for who shows files by lines."""

import json
import re
from collections.abc import Sequence
from typing import Any

JSON_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def find_file_line(data: bytes, cell: int, line: int) -> int | None:
    """The line of a notebook's file with a line of a cell, all counted from 1; None if unknown.

    A cell's source is a list of strings, as a rule one for each line; or one string, which stands
    in one line of the file.
    """
    if cell < 1 or line < 1:
        return None
    strings: list[re.Match[str]] = []

    def number_string(match: re.Match[str]) -> str:
        strings.append(match)
        return f'"{len(strings) - 1}"'

    try:
        text = data.decode("utf-8")
        # Each string is its number, so that what is found can be found in the text, too.
        notebook = json.loads(JSON_STRING.sub(number_string, text))
        source = _get_member(_get_member(notebook, "cells", strings)[cell - 1], "source", strings)
        pieces = [strings[int(n)] for n in ([source] if isinstance(source, str) else source)]
        at = _find_offset(pieces, line)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None
    return None if at is None else text.count("\n", 0, at) + 1


def _get_member(numbered: dict[str, Any], name: str, strings: Sequence[re.Match[str]]) -> Any:
    """What an object has under a name; where it has several, the last, as readers of JSON do."""
    return [v for k, v in numbered.items() if json.loads(strings[int(k)][0]) == name][-1]


def _find_offset(pieces: Sequence[re.Match[str]], line: int) -> int | None:
    """Where in the file the string begins in which a line of the cell does."""
    before = 1
    for piece in pieces:
        value = json.loads(piece[0])
        if not value:
            continue
        after = before + value.count("\n")
        # The line after the piece's last break begins here if anything of it does.
        if before == line or before < line < after or (line == after and value[-1:] != "\n"):
            return piece.start()
        before = after
    return None
