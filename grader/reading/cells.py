"""Decode a submission into the Python text of its cells, without running any of it.

Everything downstream relies on two invariants:

* Line n of a cell's text is line n of the cell as its author sees it. Magics are replaced
  within their own lines, so tracebacks and warnings point at the right line.
* A cell that is not Python affects no other cell. Its error is stored with it, and the other cells
  are read.

Notebooks are not validated against their schema: files that students edited, stripped or merged
still hold their code, and a validator would only reject them.
"""

import ast
import io
import itertools
import json
import re
import sys
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

MAX_DEPTH = 200
"""the deepest syntax tree accepted; real code stays below 40, the recursion limit is 1000"""

MAX_SHOWN_NUMBER = 1_000_000
"""the largest number of a cell that Jupyter shows"""

_NOT_TEXT = {
    b"PK\x03\x04": "a zip archive; unpack it and hand in the file inside",
    b"\x1f\x8b": "a gzip archive; unpack it and hand in the file inside",
    b"%PDF": "a PDF document; hand in the file it was printed from",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
}


class Unreadable(Exception):
    """The submission holds no code that can be read; the message says why and what to do."""


READ_BY = f"read by Python {sys.version_info.major}.{sys.version_info.minor}"
"""added to Python's own message, because the code may use the syntax of a newer Python"""
CONFLICT = re.compile(r"(?ms)^<{7}(?: [^\n]*)?$.*^={7}$.*^>{7}(?: [^\n]*)?$")
"""the marks that git leaves in a file that it could not merge"""


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """The reason why a cell is not valid Python."""

    message: str
    line: int


@dataclass(frozen=True, slots=True)
class SourceCell:
    """One code cell, or a whole module."""

    number: int | None
    """the number that Jupyter shows beside it (`number_code_cells`); None for a module"""
    text: str
    error: SyntaxProblem | None = None


@dataclass(frozen=True, slots=True)
class SubmissionSource:
    """The code of a submission, in source order."""

    cells: tuple[SourceCell, ...]


def read_source(data: bytes, kind: Literal["py", "ipynb"]) -> SubmissionSource:
    """Read a module or a notebook. Raises Unreadable if the bytes hold neither."""
    if kind == "py":
        return SubmissionSource((_read_module(data),))
    return SubmissionSource(tuple(_read_cell(*cell) for cell in list_code_cells(data)))


def parse(text: str) -> ast.Module:
    """Parse a cell's text, without showing Python's warnings about it."""
    with warnings.catch_warnings(action="ignore"):
        return ast.parse(text)


# ---------------------------------------------------------------------------- modules


def _read_module(data: bytes) -> SourceCell:
    _refuse_other_formats(data)
    text = _normalise_newlines(_decode(data))
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise Unreadable(
            f"The file is not text: line {line} holds a NUL byte. Save it as UTF-8 text."
        )
    return SourceCell(None, text, _find_problem(text))


def _decode(data: bytes) -> str:
    """Decode as Python does: as UTF-8, unless a byte order mark or coding cookie says otherwise."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise Unreadable(
            f"The file is not {error.encoding} text: line {line} holds the byte "
            f"0x{data[error.start]:02x}. Save it as UTF-8 text."
        ) from None
    except (SyntaxError, LookupError, ValueError) as error:
        raise Unreadable(
            f"The file is not text that Python can decode: {error}. Save it as UTF-8 text."
        ) from None


def _refuse_other_formats(data: bytes) -> None:
    for signature, description in _NOT_TEXT.items():
        if data.startswith(signature):
            raise Unreadable(f"The file is {description}.")


# -------------------------------------------------------------------------- notebooks


def list_code_cells(data: bytes) -> list[tuple[int, str | None]]:
    """Return the number and the text of each code cell; the text is None if it is not a string.

    Only the notebook's JSON is parsed, not the code. Raises Unreadable.
    """
    return select_code_cells(list_cells(parse_notebook(data)))


def select_code_cells(cells: list[object]) -> list[tuple[int, str | None]]:
    """Return the same of cells that are already parsed. Raises Unreadable if there are none."""
    code = dict(_iter_code_cells(cells))
    if not code:
        raise Unreadable("The notebook has no code cells. Was it saved, and is it the right file?")
    return [(number, _read_text(code[at])) for at, number in number_code_cells(cells).items()]


def number_code_cells(cells: list[object]) -> dict[int, int]:
    """Return the numbers of code cells, by their places among all cells, from 0, in this order.

    The number is the one that Jupyter shows beside a cell, such as `[3]`. Cells that were not run
    get the numbers that follow. If two cells show the same number, all are counted as when they are
    run from the top.
    """
    code = dict(_iter_code_cells(cells))
    shown = {at: n for at, cell in code.items() if (n := _read_shown_number(cell)) is not None}
    shown = shown if len(set(shown.values())) == len(shown) else {}
    following = itertools.count(max(shown.values(), default=0) + 1)
    left = [at for at in code if at not in shown]
    left.sort(key=lambda at: _is_empty(code[at]))
    numbers = shown | dict(zip(left, following, strict=False))
    return {at: numbers[at] for at in code}


def _iter_code_cells(cells: list[object]) -> Iterator[tuple[int, dict[str, object]]]:
    for at, cell in enumerate(cells):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            yield at, cell


def _read_shown_number(cell: dict[str, object]) -> int | None:
    """Return how many cells had been run when a cell was run last; None if it was not run."""
    number = cell.get("execution_count", cell.get("prompt_number"))
    if not isinstance(number, int) or isinstance(number, bool):
        return None
    return number if 0 < number <= MAX_SHOWN_NUMBER else None


def _is_empty(cell: dict[str, object]) -> bool:
    """Whether there is nothing to run in a cell, so that Jupyter never numbers it."""
    text = _read_text(cell)
    return text is not None and not text.strip()


def parse_notebook(data: bytes) -> object:
    """Return what the JSON of a notebook holds. Raises Unreadable."""
    _refuse_other_formats(data)
    if not data.strip():
        raise Unreadable("The file is empty. Save the notebook and hand it in again.")
    try:
        # Not `json.loads(data)`: it guesses an encoding; notebooks are UTF-8.
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"The notebook is not UTF-8 text (byte {error.start}). Save it again from Jupyter."
        ) from None
    except (RecursionError, MemoryError):
        raise Unreadable(
            "The notebook's JSON is nested too deeply to be one. Save it again from Jupyter."
        ) from None
    except json.JSONDecodeError as error:
        raise Unreadable(_explain_invalid_json(data, error)) from None
    except ValueError as error:
        raise Unreadable(
            f"The notebook's JSON cannot be read: {error}. Save it again from Jupyter."
        ) from None


def _explain_invalid_json(data: bytes, error: json.JSONDecodeError) -> str:
    start = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"<"):
        return "The file is a web page, not a notebook. Download the .ipynb file itself."
    if not start.startswith(b"{"):
        return "The file is not a notebook (not JSON). If it is Python, name it .py."
    if b"<<<<<<<" in data:
        return "The notebook holds unresolved git conflicts. Resolve them and save it again."
    return (
        f"The notebook is not valid JSON (line {error.lineno}: {error.msg}); it may be cut off. "
        "Save it again from Jupyter."
    )


def list_cells(notebook: object) -> list[object]:
    """Return the cells of nbformat 4, or of nbformat 3, which keeps them in worksheets.

    They are the notebook's own objects. Raises Unreadable.
    """
    if isinstance(notebook, dict):
        sheets = notebook.get("worksheets")
        pages = [notebook, *(sheets if isinstance(sheets, list) else [])]
        lists = [page["cells"] for page in pages if isinstance(page, dict) and "cells" in page]
        if lists and all(isinstance(cells, list) for cells in lists):
            return [cell for cells in lists for cell in cells]
    raise Unreadable(
        "The file is JSON, but not a notebook: it has no list of cells. Save it again from Jupyter."
    )


def _read_text(cell: dict[str, object]) -> str | None:
    source = cell.get("source", cell.get("input", ""))
    lines: list[object] = source if isinstance(source, list) else [source or ""]
    parts = [line for line in lines if isinstance(line, str)]
    if len(parts) < len(lines):
        return None
    # JSON can spell a lone surrogate, which no encoder accepts later on.
    text = "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _normalise_newlines(text.removeprefix("\ufeff"))


def _read_cell(number: int, text: str | None) -> SourceCell:
    if text is None:
        return SourceCell(number, "", SyntaxProblem("the cell's source is not text", 1))
    problem = _find_problem(text)
    if problem is not None:  # magics are never valid Python, so only such a cell can have any
        # Imported late: IPython is slow to import, and most cells do without it.
        from headcheck.grader.reading import magics

        conflict = problem if CONFLICT.search(text) else None  # IPython changes such lines, too
        try:
            text = magics.neutralise_magics(text)
        except Exception as error:  # IPython's tokenizer, on text that is hardly Python
            return SourceCell(number, text, SyntaxProblem(_to_one_line(error), 1))
        rest = _find_problem(text)
        problem = None if rest is None else conflict or rest
    return SourceCell(number, text, problem)


# ---------------------------------------------------------------------- syntax errors


def _find_problem(text: str) -> SyntaxProblem | None:
    """Return the error of compiling the text as a notebook would, if there is one."""
    if not text.strip():
        return None
    try:
        tree = parse(text)
        if _is_deeper_than(MAX_DEPTH, tree):
            return SyntaxProblem(f"nested more than {MAX_DEPTH} levels deep", 1)
        with warnings.catch_warnings(action="ignore"):
            compile(tree, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        last = text.count("\n") + 1
        if (marker := CONFLICT.search(text)) is not None:
            at = text[: marker.start()].count("\n") + 1
            return SyntaxProblem("it holds unresolved git conflicts; resolve them", at)
        line = min(max(error.lineno or 1, 1), last)
        return SyntaxProblem(f"{_to_one_line(error.msg)} ({READ_BY})", line)
    except (RecursionError, MemoryError):
        return SyntaxProblem("nested too deeply to be read", 1)
    except ValueError as error:  # NUL characters, before Python 3.12
        line = text[: max(text.find("\0"), 0)].count("\n") + 1
        return SyntaxProblem(_to_one_line(error), line)
    return None


def _is_deeper_than(limit: int, tree: ast.AST) -> bool:
    level = [tree]
    for _ in range(limit):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


def _to_one_line(message: object) -> str:
    return " ".join(str(message).split()) or type(message).__name__


def _normalise_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
