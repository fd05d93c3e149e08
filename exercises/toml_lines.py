"""Find the line on which a value of a TOML file is written, from its text."""

import re
from collections.abc import Iterator

KEY_PART = r"""(?:"[^"]*"|'[^']*'|[\w-]+)"""
KEYS = rf"{KEY_PART}(?:\s*\.\s*{KEY_PART})*"
ENTRY = re.compile(rf"\s*(?:\[+\s*({KEYS})\s*\]|({KEYS})\s*=)")
"""the header of a table, or a key and its equals sign"""


def find_line(text: str, keys: tuple[str, ...], value: object = None) -> int:
    """Return the line of a key, or of the table that it belongs in; tomllib does not tell.

    With a value, that of the line below it where this value is written, in quotes.
    """
    entries = [(1, ()), *_iter_entries(text)]
    depths = [_count_common(keys, path) for _, path in entries]
    at = depths.index(max(depths))
    lines = text.splitlines()
    first = entries[at][0]
    last = entries[at + 1][0] - 1 if at + 1 < len(entries) else len(lines)
    quoted = re.compile(rf"""["']{re.escape(str(value))}["']""")
    within = (n for n in range(first, last + 1) if lines and quoted.search(lines[n - 1]))
    return next(within, first)


def _iter_entries(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the lines on which a table or a key begins, with the keys that lead there."""
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if found := ENTRY.match(line):
            keys = tuple(part.strip("\"'") for part in re.findall(KEY_PART, found[1] or found[2]))
            table = keys if found[1] else table
            yield number, keys if found[1] else (*table, *keys)


def _count_common(keys: tuple[str, ...], path: tuple[str, ...]) -> int:
    """Return how many keys two paths share, if one leads to the other; else -1."""
    shared = min(len(keys), len(path))
    return shared if keys[:shared] == path[:shared] else -1
