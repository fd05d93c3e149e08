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

from tests.hostile.corpus import QUICK, TWINS

TEXT = TWINS["right"]


def make_notebook(*cells: str, version: int = 4, **more: Any) -> str:
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
class OddFile:
    """A file, and whether it must be judged like any other."""

    title: str
    name: str
    make: Callable[[Path], object]
    loads: bool | None
    """full marks, or none and an error that says why; None where either is right"""
    limits: Mapping[str, float] = field(default_factory=lambda: QUICK)


def make_writer(content: str | bytes) -> Callable[[Path], object]:
    data = content.encode() if isinstance(content, str) else content
    return lambda path: path.write_bytes(data)


def make_linker(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def make_device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))


def leave_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def write_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.write(TEXT.encode())
        file.truncate(60 << 20)


def make_zip(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, make_notebook(TEXT))
    return buffer.getvalue()


def make_many_cells(count: int) -> str:
    empty = ",".join(['{"cell_type":"code","source":""}'] * count)
    last = json.dumps({"cell_type": "code", "metadata": {}, "source": TEXT, **NEW})
    return f'{{"cells":[{empty},{last}],"metadata":{{}},"nbformat":4,"nbformat_minor":4}}'


DEEP = 100_000
BRACKETS = "[" * DEEP + "]" * DEEP
IN_A_CELL = TEXT.replace("    def __init__", "    wide = 9**9**9\n\n    def __init__", 1)
ACCENTED = f"# -*- coding: latin-1 -*-\nname = 'caf\u00e9'\n{TEXT}"

FILES: tuple[OddFile, ...] = (
    # What it is.
    OddFile("a link to another file", "a.py", make_linker("/etc/passwd"), False),
    OddFile("a link that leads nowhere", "a.py", make_linker("/nonexistent"), False),
    OddFile("a link to itself", "a.ipynb", link_to_itself, False),
    OddFile("a link to an endless device", "a.py", make_linker("/dev/zero"), False),
    OddFile("a pipe that nobody writes", "a.py", os.mkfifo, False),
    OddFile("a folder without submissions", "a.ipynb", Path.mkdir, False),
    OddFile("a device", "a.py", make_device, False),
    OddFile("a socket", "a.ipynb", leave_socket, False),
    OddFile("a file of 60 MB", "a.py", write_huge, False),
    OddFile("an empty file", "a.py", make_writer(b""), False),
    OddFile("an empty notebook", "a.ipynb", make_writer(b""), False),
    # What it is made of.
    OddFile("JSON a hundred thousand levels deep", "a.ipynb", make_writer(BRACKETS), False),
    OddFile(
        "deep JSON in a cell's metadata",
        "a.ipynb",
        make_writer(
            make_notebook(TEXT).replace('"metadata": {}', f'"metadata": {{"a": {BRACKETS}}}', 1)
        ),
        False,
    ),
    OddFile("a zip archive", "a.ipynb", make_writer(make_zip("a.ipynb")), False),
    OddFile(
        "a zip archive with a path that climbs", "a.py", make_writer(make_zip("../../a.py")), False
    ),
    OddFile("NUL bytes", "a.py", make_writer(TEXT.encode() + b"\0" * 100), False),
    OddFile("NUL bytes in a cell", "a.ipynb", make_writer(make_notebook("\0", TEXT)), True),
    OddFile(
        "Latin-1 that does not say so",
        "a.py",
        make_writer(f"# caf\u00e9\n{TEXT}".encode("latin-1")),
        False,
    ),
    OddFile("Latin-1 that says so", "a.py", make_writer(ACCENTED.encode("latin-1")), True),
    OddFile(
        "a codec that runs code",
        "a.py",
        make_writer(f"# -*- coding: unicode_escape -*-\n{TEXT}"),
        None,
    ),
    OddFile("a codec that unpacks", "a.py", make_writer(f"# -*- coding: zlib -*-\n{TEXT}"), False),
    OddFile(
        "an expression too deep to parse",
        "a.py",
        make_writer(f"x = {'(' * DEEP}1{')' * DEEP}\n{TEXT}"),
        False,
    ),
    OddFile(
        "a sum of ten thousand terms",
        "a.ipynb",
        make_writer(make_notebook(f"x = {'1+' * 10_000}1", TEXT)),
        True,
    ),
    OddFile(
        "a number of 300 million digits",
        "a.ipynb",
        make_writer(make_notebook("n = 9**9**9", TEXT)),
        True,
    ),
    OddFile(
        "such a number in the class", "a.py", make_writer(IN_A_CELL), False, {**QUICK, "call_s": 1}
    ),
    OddFile(
        "a literal of a million digits", "a.py", make_writer(f"n = {'9' * 10**6}\n{TEXT}"), None
    ),
    OddFile(
        "a million empty cells",
        "a.ipynb",
        make_writer(make_many_cells(10**6)),
        None,
        {**QUICK, "source": 64 << 20},
    ),
    OddFile(
        "a notebook of the wrong types",
        "a.ipynb",
        make_writer('{"cells": {"a": 1}, "nbformat": "4"}'),
        False,
    ),
    OddFile(
        "a cell of the wrong types",
        "a.ipynb",
        make_writer(
            '{"cells": [7, {"source": 8}], "nbformat": 4, "nbformat_minor": 4, "metadata": {}}'
        ),
        False,
    ),
    OddFile(
        "a notebook of format 4,000,000",
        "a.ipynb",
        make_writer(make_notebook(TEXT).replace('"nbformat": 4', '"nbformat": 4000000')),
        None,
    ),
    OddFile(
        "numbers beyond every float",
        "a.ipynb",
        make_writer(make_notebook(TEXT).replace('"nbformat_minor": 4', '"nbformat_minor": 1e999')),
        None,
    ),
    OddFile(
        "halves of characters", "a.ipynb", make_writer(make_notebook("s = '\ud800'", TEXT)), True
    ),
    OddFile("a byte order mark", "a.py", make_writer(b"\xef\xbb\xbf" + TEXT.encode()), True),
    OddFile(
        "a byte order mark in a notebook",
        "a.ipynb",
        make_writer(b"\xef\xbb\xbf" + make_notebook(TEXT).encode()),
        True,
    ),
    OddFile("a notebook of format 3", "a.ipynb", make_writer(make_notebook(TEXT, version=3)), True),
    OddFile("line ends of Windows", "a.py", make_writer(TEXT.replace("\n", "\r\n")), True),
    OddFile("line ends of old Macs", "a.py", make_writer(TEXT.replace("\n", "\r")), True),
    # How it is named.
    OddFile(
        "a name in several scripts",
        "Zo\u00eb \u674e \u0635\u0628\u0627\u062d \u05d0.py",
        make_writer(TEXT),
        True,
    ),
    OddFile("a name that reads from right to left", "\u202epy.eda.py", make_writer(TEXT), True),
    OddFile("a name of 255 bytes", "n" * 252 + ".py", make_writer(TEXT), True),
    OddFile("a name with a line break", "a\n20 of 20.py", make_writer(TEXT), True),
    OddFile("a name of wrong bytes", "caf\udce9.py", make_writer(TEXT), True),
    OddFile("a name like an option", "--trusted.py", make_writer(TEXT), True),
    OddFile("a name like a command", "$(touch won) `touch won`;.py", make_writer(TEXT), True),
    OddFile("a name with colours", "\x1b[32mpassed.py", make_writer(TEXT), True),
    OddFile("a name in capitals", "A.PY", make_writer(TEXT), True),
)
