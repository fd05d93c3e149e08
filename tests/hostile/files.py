"""Submissions whose attack is the file itself: what it is, how it is named, what it is made of."""

import io
import json
import os
import socket
import stat
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hostile.corpus import GOOD, QUICK

TEXT = GOOD.read_text("utf-8")


def notebook(*cells: str, version: int = 4, **more: Any) -> str:
    """A notebook of code cells, in a format of 3 or 4."""
    if version == 3:
        made = [
            {"cell_type": "code", "language": "python", "input": c.split("\n"), **OLD}
            for c in cells
        ]
        made = [{**cell, "input": [f"{line}\n" for line in cell["input"]]} for cell in made]
        sheets = [{"cells": made, "metadata": {}}]
        return json.dumps(
            {"metadata": {"name": ""}, "nbformat": 3, "nbformat_minor": 0, "worksheets": sheets}
        )
    made = [{"cell_type": "code", "metadata": {}, "source": c, **NEW} for c in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 4, **more})


OLD: Mapping[str, Any] = {"collapsed": False, "metadata": {}, "outputs": [], "prompt_number": 1}
NEW: Mapping[str, Any] = {"execution_count": None, "outputs": []}


@dataclass(frozen=True, slots=True)
class Odd:
    """A file, and whether it must be judged like any other."""

    title: str
    name: str
    make: Callable[[Path], object]
    loads: bool | None
    """full marks, or none and an error that says why; None where either is right"""
    limits: Mapping[str, float] = field(default_factory=lambda: QUICK)


def written(content: str | bytes) -> Callable[[Path], object]:
    data = content.encode() if isinstance(content, str) else content
    return lambda path: path.write_bytes(data)


def linked(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


def linked_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))


def left_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.write(TEXT.encode())
        file.truncate(60 << 20)


def zipped(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, notebook(TEXT))
    return buffer.getvalue()


def full_of_cells(count: int) -> str:
    empty = ",".join(['{"cell_type":"code","source":""}'] * count)
    last = json.dumps({"cell_type": "code", "metadata": {}, "source": TEXT, **NEW})
    return f'{{"cells":[{empty},{last}],"metadata":{{}},"nbformat":4,"nbformat_minor":4}}'


DEEP = 100_000
BRACKETS = "[" * DEEP + "]" * DEEP
IN_A_CELL = TEXT.replace("    def __init__", "    wide = 9**9**9\n\n    def __init__", 1)
ACCENTED = f"# -*- coding: latin-1 -*-\nname = 'caf\u00e9'\n{TEXT}"

FILES: tuple[Odd, ...] = (
    # What it is.
    Odd("a link to another file", "a.py", linked("/etc/passwd"), False),
    Odd("a link that leads nowhere", "a.py", linked("/nonexistent"), False),
    Odd("a link to itself", "a.ipynb", linked_to_itself, False),
    Odd("a link to an endless device", "a.py", linked("/dev/zero"), False),
    Odd("a pipe that nobody writes", "a.py", os.mkfifo, False),
    Odd("a folder without submissions", "a.ipynb", Path.mkdir, False),
    Odd("a device", "a.py", device, False),
    Odd("a socket", "a.ipynb", left_socket, False),
    Odd("a file of 60 MB", "a.py", huge, False),
    Odd("an empty file", "a.py", written(b""), False),
    Odd("an empty notebook", "a.ipynb", written(b""), False),
    # What it is made of.
    Odd("JSON a hundred thousand levels deep", "a.ipynb", written(BRACKETS), False),
    Odd(
        "deep JSON in a cell's metadata",
        "a.ipynb",
        written(notebook(TEXT).replace('"metadata": {}', f'"metadata": {{"a": {BRACKETS}}}', 1)),
        False,
    ),
    Odd("a zip archive", "a.ipynb", written(zipped("a.ipynb")), False),
    Odd("a zip archive with a path that climbs", "a.py", written(zipped("../../a.py")), False),
    Odd("NUL bytes", "a.py", written(TEXT.encode() + b"\0" * 100), False),
    Odd("NUL bytes in a cell", "a.ipynb", written(notebook("\0", TEXT)), True),
    Odd(
        "Latin-1 that does not say so",
        "a.py",
        written(f"# caf\u00e9\n{TEXT}".encode("latin-1")),
        False,
    ),
    Odd("Latin-1 that says so", "a.py", written(ACCENTED.encode("latin-1")), True),
    Odd(
        "a codec that runs code", "a.py", written(f"# -*- coding: unicode_escape -*-\n{TEXT}"), None
    ),
    Odd("a codec that unpacks", "a.py", written(f"# -*- coding: zlib -*-\n{TEXT}"), False),
    Odd(
        "an expression too deep to parse",
        "a.py",
        written(f"x = {'(' * DEEP}1{')' * DEEP}\n{TEXT}"),
        False,
    ),
    Odd(
        "a sum of ten thousand terms",
        "a.ipynb",
        written(notebook(f"x = {'1+' * 10_000}1", TEXT)),
        True,
    ),
    Odd("a number of 300 million digits", "a.ipynb", written(notebook("n = 9**9**9", TEXT)), True),
    Odd("such a number in the class", "a.py", written(IN_A_CELL), False, {**QUICK, "call_s": 1}),
    Odd("a literal of a million digits", "a.py", written(f"n = {'9' * 10**6}\n{TEXT}"), None),
    Odd(
        "a million empty cells",
        "a.ipynb",
        written(full_of_cells(10**6)),
        None,
        {**QUICK, "source": 64 << 20},
    ),
    Odd(
        "a notebook of the wrong types",
        "a.ipynb",
        written('{"cells": {"a": 1}, "nbformat": "4"}'),
        False,
    ),
    Odd(
        "a cell of the wrong types",
        "a.ipynb",
        written(
            '{"cells": [7, {"source": 8}], "nbformat": 4, "nbformat_minor": 4, "metadata": {}}'
        ),
        False,
    ),
    Odd(
        "a notebook of format 4,000,000",
        "a.ipynb",
        written(notebook(TEXT).replace('"nbformat": 4', '"nbformat": 4000000')),
        None,
    ),
    Odd(
        "numbers beyond every float",
        "a.ipynb",
        written(notebook(TEXT).replace('"nbformat_minor": 4', '"nbformat_minor": 1e999')),
        None,
    ),
    Odd("halves of characters", "a.ipynb", written(notebook("s = '\ud800'", TEXT)), True),
    Odd("a byte order mark", "a.py", written(b"\xef\xbb\xbf" + TEXT.encode()), True),
    Odd(
        "a byte order mark in a notebook",
        "a.ipynb",
        written(b"\xef\xbb\xbf" + notebook(TEXT).encode()),
        True,
    ),
    Odd("a notebook of format 3", "a.ipynb", written(notebook(TEXT, version=3)), True),
    Odd("line ends of Windows", "a.py", written(TEXT.replace("\n", "\r\n")), True),
    Odd("line ends of old Macs", "a.py", written(TEXT.replace("\n", "\r")), True),
    # How it is named.
    Odd(
        "a name in several scripts",
        "Zo\u00eb \u674e \u0635\u0628\u0627\u062d \u05d0.py",
        written(TEXT),
        True,
    ),
    Odd("a name that reads from right to left", "\u202epy.eda.py", written(TEXT), True),
    Odd("a name of 255 bytes", "n" * 252 + ".py", written(TEXT), True),
    Odd("a name with a line break", "a\n20 of 20.py", written(TEXT), True),
    Odd("a name of wrong bytes", "caf\udce9.py", written(TEXT), True),
    Odd("a name like an option", "--trusted.py", written(TEXT), True),
    Odd("a name like a command", "$(touch won) `touch won`;.py", written(TEXT), True),
    Odd("a name with colours", "\x1b[32mpassed.py", written(TEXT), True),
    Odd("a name in capitals", "A.PY", written(TEXT), True),
)
