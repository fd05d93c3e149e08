"""Present objects of this process as a submission, with their source text.

In a notebook the text consists of the executed cells, by the numbers that Jupyter shows: `[3]` is
the third cell that was executed. An earlier version of a cell is left out if all its definitions
have been replaced since.
"""

import functools
import inspect
import json
import linecache
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from IPython.core.getipython import get_ipython
from torch import Tensor

from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.outline import find_warnings
from headcheck.grader.reading.slicing import Position, parse_position, read_program
from headcheck.grader.sandbox.grader_side.in_process import InProcessRunner
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.sandbox.operations import Answer, LoadReply
from headcheck.grader.sandbox.worker.calling import Refused
from headcheck.grader.sandbox.worker.importing import TOP
from headcheck.grader.sandbox.worker.loading import Loading, make_module
from headcheck.grader.sandbox.worker.runtime import WorkerRuntime

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

MAGIC = "%%headcheck"
"""the first line of a cell that is run by our magic; the rest is run as an ordinary cell"""

Locator = Callable[[str | None, int | None], Position | None]


@dataclass(frozen=True, slots=True)
class SourceText:
    """The source of objects, and the mapping from lines of compiled files to positions in it."""

    data: bytes
    kind: Literal["py", "ipynb"]
    find_position: Locator
    display_name: str


def find_source_text(definition: object) -> SourceText:
    """Return an object's source: the notebook's cells, a module, or an empty text if unknown."""
    shell = get_ipython()
    if shell is not None and getattr(definition, "__module__", "__main__") == "__main__":
        return read_cells(shell)
    try:
        file = inspect.getsourcefile(definition)  # type: ignore[arg-type]  # it raises TypeError else
        data = Path(file or "").read_bytes()
    except (OSError, TypeError):
        return SourceText(b"", "py", lambda filename, line: None, "this session")

    def find_position(filename: str | None, line: int | None) -> Position | None:
        return (None, line or 1) if filename == file else None

    return SourceText(data, "py", find_position, Path(str(file)).name)


def read_cells(shell: "InteractiveShell") -> SourceText:
    """Return the executed cells of a notebook, or of IPython's prompt, by number."""
    history = shell.history_manager
    run = [] if history is None else list(history.input_hist_raw[1:])
    valid = _find_valid_cells(run)

    @functools.cache
    def numbers() -> dict[str, int]:
        return {shell.transform_cell(_strip_magic(source)): n for n, source in enumerate(run, 1)}

    def find_position(filename: str | None, line: int | None) -> Position | None:
        cell = numbers().get("".join(linecache.getlines(filename or "")))
        if cell is None:
            return None
        source = run[cell - 1]
        # IPython drops blank lines before the compiled part of a cell.
        before = source[: len(source) - len(_strip_magic(source).lstrip())]
        return cell, (line or 1) + before.count("\n")

    cells = {number: source for number, source in enumerate(run, 1) if number in valid}
    if not valid:
        return SourceText(b"", "py", find_position, "notebook")
    return SourceText(_make_notebook(cells), "ipynb", find_position, "notebook")


def _make_notebook(run: Mapping[int, str]) -> bytes:
    cells = [
        {"cell_type": "code", "execution_count": number, "source": source}
        for number, source in run.items()
    ]
    return json.dumps({"cells": cells, "nbformat": 4}).encode()


def _find_valid_cells(run: list[str]) -> set[int]:
    """Return the numbers of cells with a definition that has not been replaced since."""
    if not run:
        return set()
    source = read_source(_make_notebook(dict(enumerate(run, 1))), "ipynb")
    bound: dict[int, set[str]] = {}
    for statement in read_program(source).statements:
        bound.setdefault(statement.cell or 0, set()).update(statement.effects.binds)
    since: set[str] = set()
    valid = set()
    for number in sorted(bound, reverse=True):
        if not bound[number] or not bound[number] <= since:
            valid.add(number)
        since |= bound[number]
    return valid


def _strip_magic(source: str) -> str:
    """Return the compiled part of a cell: all of it, or the lines after our magic."""
    return source.partition("\n")[2] if source.startswith(MAGIC) else source


class LiveRuntime(WorkerRuntime):
    """Answers requests about existing objects."""

    def __init__(self, namespace: Mapping[str, Any], find_position: Locator) -> None:
        super().__init__(dict(namespace))
        self.find_position = find_position

    def load(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Answer[LoadReply]:
        """Check that all names that the exercise needs are defined.

        The definitions are run again only if variables are replaced by other numbers. They are then
        run from the source text; names that the text lacks are taken from this process.
        """
        self.names = tuple(meta["names"])
        self.by_hand = bool(meta.get("by_hand"))
        missing = [name for name in self.names if name not in self.namespace]
        if missing:
            raise Refused(f"`{missing[0]}` is not defined yet; run the cell that defines it")
        self.variants = {(): Loading(make_module(self.namespace, TOP), [])}
        again = {*self.names, "__name__"}
        self.initial_namespace = {n: v for n, v in self.namespace.items() if n not in again}
        warnings = find_warnings(self.source, self.names[0])
        return LoadReply([asdict(remark) for remark in warnings]), ()

    def locate_line(self, filename: str | None, line: int | None) -> Position | None:
        return self.find_position(filename, line) or parse_position(filename, line)


@dataclass(frozen=True)
class LiveSandbox:
    """A stand-in for a fork server: all children share the same objects."""

    namespace: Mapping[str, Any]
    text: SourceText

    def start_child(self, limits: Limits, cpu_left: int | None = None) -> InProcessRunner:
        """Return a worker runtime for one session."""
        return InProcessRunner(LiveRuntime(self.namespace, self.text.find_position))
