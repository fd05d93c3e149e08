"""Lines of a text, with styles, and how they fit into a terminal."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len

COLUMNS = 80
"""the width of a terminal into which the text fits"""
COMMAND = re.compile(r"\s*(?:::|##\[)")
"""the beginning of lines that some continuous-integration systems obey as commands"""


@dataclass(frozen=True, slots=True)
class StyledLine:
    """One line, and its style on a terminal with colours."""

    text: str
    style: str = ""
    hang: int = 0
    """where a continued line begins: below the text after a label; 0 if there is no label"""


EMPTY = StyledLine("")


def fold_lines(lines: Iterable[StyledLine]) -> Iterator[StyledLine]:
    """Yield lines that fit: long lines continue below, indented, except for headlines."""
    for line in lines:
        if cell_len(line.text) <= COLUMNS or not line.text.startswith(" "):
            yield line
            continue
        by = line.hang or len(line.text) - len(line.text.lstrip()) + 2
        rest = " " * by
        parts = textwrap.wrap(
            line.text,
            COLUMNS,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
        obeyed = any(map(COMMAND.match, parts[1:]))
        yield from [line] if obeyed else (replace(line, text=part) for part in parts)


def count_rows(lines: Iterable[StyledLine]) -> int:
    """Count the terminal lines that these styled lines take up."""
    return sum(max(1, -(-cell_len(line.text) // COLUMNS)) for line in fold_lines(lines))


def indent(by: int, text: str) -> Iterator[StyledLine]:
    """Yield the lines of a text, indented by this many columns."""
    for line in text.expandtabs(4).split("\n"):
        yield StyledLine(" " * by + line)


def list_items(items: Sequence[str], style: str) -> Iterator[StyledLine]:
    """List items on as few lines as possible, without breaking any item across lines."""
    joined = ", ".join(item.replace(" ", "\0") for item in items)
    for line in textwrap.wrap(joined, COLUMNS, initial_indent="  ", subsequent_indent="    "):
        yield StyledLine(line.replace("\0", " "), style)


def align_columns(rows: Sequence[tuple[str, ...]], gap: int = 2) -> list[str]:
    """Align the columns of the rows, measured in terminal cells."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        (" " * gap)
        .join(
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        )
        .rstrip()
        for row in rows
    ]


def align_numbers(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Align the numbers of a matrix on the right."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        " ".join(" " * (w - cell_len(cell)) + cell for cell, w in zip(row, widths, strict=True))
        for row in rows
    ]
