"""Objects of this process as a submission, and the text that they came from.

In a notebook that text is what was run: the cells by the numbers that stand beside them, `[3]` for
the third that was run. An earlier version of a cell is left out where all it defined has been
defined again since.
"""

import functools
import inspect
import json
import linecache
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython
from torch import Tensor

from grader.reading.cells import read_source
from grader.reading.outline import remarks
from grader.reading.slicing import Position, read_program, where
from grader.sandbox.grader_side.in_process import Beside
from grader.sandbox.limits import Limits
from grader.sandbox.worker.batch import Reply
from grader.sandbox.worker.runtime import Host, Refused

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

MAGIC = "%%headcheck"
"""the first line of a cell that is run by our magic; what follows it is run as a cell is"""

PlaceOf = Callable[[str | None, int | None], Position | None]


@dataclass(frozen=True, slots=True)
class Text:
    """The source that objects came from, and where in it a line of a compiled file is."""

    data: bytes
    kind: str
    place_of: PlaceOf
    shown: str


def nowhere(filename: str | None, line: int | None) -> Position | None:
    """The place of a line that is in no text."""
    return None


def text_of(made: object) -> Text:
    """The text that an object came from: the cells of the notebook, a module, or nothing known."""
    shell = get_ipython()
    if shell is not None and getattr(made, "__module__", "__main__") == "__main__":
        return of_cells(shell)
    try:
        file = inspect.getsourcefile(made)  # type: ignore[arg-type]  # it raises TypeError else
        data = Path(file or "").read_bytes()
    except (OSError, TypeError):
        return Text(b"", "py", nowhere, "this session")

    def place_of(filename: str | None, line: int | None) -> Position | None:
        return (None, line or 1) if filename == file else None

    return Text(data, "py", place_of, Path(str(file)).name)


def of_cells(shell: "InteractiveShell") -> Text:
    """What was run in a notebook or at the prompt of IPython, by the numbers of its cells."""
    history = shell.history_manager
    run = [] if history is None else list(history.input_hist_raw[1:])
    still = _still_valid(run)

    @functools.cache
    def numbers() -> dict[str, int]:
        return {shell.transform_cell(_compiled(source)): n for n, source in enumerate(run, 1)}

    def place_of(filename: str | None, line: int | None) -> Position | None:
        cell = numbers().get("".join(linecache.getlines(filename or "")))
        return None if cell is None else (cell, (line or 1) + _lines_before(run[cell - 1]))

    cells = [
        {"cell_type": "code" if number in still else "raw", "source": source}
        for number, source in enumerate(run, 1)
    ]
    return Text(
        _notebook(cells) if still else b"", "ipynb" if still else "py", place_of, "notebook"
    )


def _notebook(cells: list[dict[str, str]]) -> bytes:
    return json.dumps({"cells": cells, "nbformat": 4}).encode()


def _still_valid(run: list[str]) -> set[int]:
    """The numbers of the cells that define something which has not been defined again since."""
    if not run:
        return set()
    source = read_source(_notebook([{"cell_type": "code", "source": s} for s in run]), "ipynb")
    bound: dict[int, set[str]] = {}
    for statement in read_program(source).statements:
        bound.setdefault(statement.cell or 0, set()).update(statement.effects.binds)
    since: set[str] = set()
    found = set()
    for number in sorted(bound, reverse=True):
        if not bound[number] or not bound[number] <= since:
            found.add(number)
        since |= bound[number]
    return found


def _compiled(source: str) -> str:
    """The part of a cell that is compiled: all of it, or what follows our magic."""
    return source.partition("\n")[2] if source.startswith(MAGIC) else source


def _lines_before(source: str) -> int:
    """How many lines of a cell stand before what is compiled; IPython drops blank ones."""
    compiled = _compiled(source)
    left_out = source[: len(source) - len(compiled.lstrip())]
    return left_out.count("\n")


class LiveHost(Host):
    """Answers requests about objects that are there already; nothing is run to make them."""

    def __init__(self, namespace: Mapping[str, Any], place_of: PlaceOf) -> None:
        super().__init__(dict(namespace))
        self.place_of = place_of

    def load(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Look whether all is there that the exercise needs."""
        names = list(meta["names"])
        self.by_hand = bool(meta.get("by_hand"))
        missing = [name for name in names if name not in self.namespace]
        if missing:
            raise Refused(f"`{missing[0]}` is not defined yet; run the cell that defines it")
        return {"remarks": [asdict(remark) for remark in remarks(self.source, names[0])]}, ()

    def place(self, error: BaseException) -> Position | None:
        return where(error, self.place_of)


@dataclass(frozen=True)
class Live:
    """What stands in for a fork server: every child has the same objects."""

    namespace: Mapping[str, Any]
    text: Text

    def child(self, limits: Limits, cpu_left: int | None = None) -> Beside:
        """A host for one round of questions."""
        return Beside(LiveHost(self.namespace, self.text.place_of))
