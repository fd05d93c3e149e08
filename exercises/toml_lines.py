"""Read a TOML file, and report errors with their lines."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, time
from pathlib import Path
from typing import Any

from headcheck.exercises.exercise import BadContract

KEY_PART = r"""(?:"[^"]*"|'[^']*'|[\w-]+)"""
KEYS = rf"{KEY_PART}(?:\s*\.\s*{KEY_PART})*"
ENTRY = re.compile(rf"\s*(?:\[+\s*({KEYS})\s*\]|({KEYS})\s*=)")
"""the header of a table, or a key and its equals sign"""

LONG_NUMBER = re.compile(r"[0-9][0-9_]{4000,}")
TOO_LARGE = "is not TOML: a whole number has at most 64 bits"

Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a value in a TOML file: the keys that lead to it."""

    path: Path
    text: str
    keys: tuple[str, ...] = ()
    error: type[Exception] = BadContract
    """the exception to raise for a fault in the file"""

    def enter(self, *keys: str) -> "Place":
        return replace(self, keys=(*self.keys, *keys))

    def fail(self, problem: str, value: object = None) -> Exception:
        """Return the error about this place, or about one value of a list at this place."""
        return self.fail_at(find_line(self.text, self.keys, value), problem)

    def fail_at(self, line: int, problem: str) -> Exception:
        return self.error(f"{self.path}, line {line}: {problem}")

    def fail_type(self, value: object, wanted: str) -> Exception:
        """Return the error about a value of another type."""
        kinds: Mapping[type, str] = {dict: "a table", list: "a list"}
        text = value.isoformat() if isinstance(value, date | time) else repr(value)
        shown = kinds.get(type(value), text[:60])
        return self.fail(f"`{'.'.join(self.keys)}` must be {wanted}, not {shown}")


def read_text(path: Path, missing: str, error: type[Exception] = BadContract) -> str:
    """Return the text of a file. Raises `error`, with the message `missing` if there is no file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise error(f"{path}, line 1: {missing}") from None
    except OSError as problem:
        raise error(f"{path}, line 1: cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError as problem:
        line = problem.object[: problem.start].count(b"\n") + 1
        raise error(f"{path}, line {line}: is not UTF-8: save it as such") from None


def parse(place: Place) -> Table:
    """Return the table of a file. Raises the error of its place."""
    try:
        table = tomllib.loads(place.text)
    except tomllib.TOMLDecodeError as problem:
        what, _, where = str(problem).rpartition(" (at ")
        found = re.match(r"line (\d+)", where)
        line = int(found[1]) if found else max(1, len(place.text.splitlines()))
        raise place.fail_at(line, f"is not TOML: {what or problem}") from None
    except RecursionError:
        raise place.fail_at(1, "is not TOML: it is nested too deeply") from None
    except ValueError:  # Python reads no number of so many digits
        start = LONG_NUMBER.search(place.text)
        line = place.text.count("\n", 0, start.start()) + 1 if start else 1
        raise place.fail_at(line, TOO_LARGE) from None
    _refuse_large_numbers(table, place)
    return table


def _refuse_large_numbers(value: object, place: Place) -> None:
    """Raise the place's error if an integer at this place is too large for TOML."""
    if isinstance(value, dict):
        for key, each in value.items():
            _refuse_large_numbers(each, place.enter(key))
    elif isinstance(value, list):
        for each in value:
            _refuse_large_numbers(each, place)
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise place.fail(TOO_LARGE)


def find_line(text: str, keys: tuple[str, ...], value: object = None) -> int:
    """Return the line of a key, or of its table, which tomllib does not report.

    With a value, returns the line after that on which this value is written in quotes.
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
    """Return how many keys two paths share if one is a prefix of the other; else -1."""
    shared = min(len(keys), len(path))
    return shared if keys[:shared] == path[:shared] else -1
