"""Add outputs to the cells of a notebook that was handed in, and remove those added before.

What headcheck adds bears one key in the metadata of its output and of the cell. Whatever else
bears this key was not written by this export, or by an earlier one, and is removed. The source of a
cell never changes, and its other outputs stay.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nbformat.validator import get_validator

from headcheck.grader.course.export.own_name import is_named
from headcheck.grader.reading.cells import (
    Unreadable,
    list_cells,
    number_code_cells,
    parse_notebook,
    select_code_cells,
)
from headcheck.grader.report.render.sanitise import escape_json

KEY = "headcheck"
"""the metadata key of what was added, and the word by which outputs may claim to be ours"""
VERSIONS = (3, 4)
FIRST_WITH_IDS = (4, 5)
"""the version of the format since which every cell has an id"""
HIDDEN = ("output_type", "metadata", "execution_count", "name", "png", "jpeg")
PICTURES = ("image/png", "image/jpeg", "image/gif", "application/pdf")
"""what shows no text of its own"""
MAX_CLAIMING = 100
"""the most cells whose own outputs may name headcheck"""
JUPYTER_3_NAMES = {"text/html": "html", "text/plain": "text"}


@dataclass(frozen=True, slots=True)
class HandedIn:
    """A valid notebook without anything that was added to it."""

    notebook: dict[str, Any]
    cells: Mapping[int, dict[str, Any]]
    """the code cells by their numbers"""
    code: Mapping[int, str]
    """the text of each code cell by its number, in the order of the notebook"""
    claiming: tuple[int, ...]
    """the numbers of the cells whose own outputs name headcheck"""


def read_handed_in(data: bytes) -> HandedIn:
    """Read a notebook, and remove what bears our key. Raises Unreadable unless it is valid."""
    notebook: Any = parse_notebook(data)
    cells: Any = list_cells(notebook)
    code = select_code_cells(cells)
    _ensure_valid(notebook, cells)
    numbered = {number: cells[at] for at, number in number_code_cells(cells).items()}
    claiming = tuple(number for number, cell in numbered.items() if _remove_added(cell))
    if len(claiming) > MAX_CLAIMING:
        raise Unreadable(f"The outputs of {len(claiming)} cells name headcheck.")
    texts = {number: text or "" for number, text in code}
    return HandedIn(notebook, numbered, texts, claiming)


def annotate(handed_in: HandedIn, added: Mapping[int, Mapping[str, str]], run: str) -> bytes:
    """Return the notebook with an output, by MIME type, at the end of each of these code cells."""
    mark = {KEY: {"run": run}}
    for number, data in added.items():
        cell = handed_in.cells[number]
        cell["metadata"] = {**_get_metadata(cell), **mark}
        cell["outputs"] = [*cell["outputs"], _make_output(data, mark, handed_in.notebook)]
    text = json.dumps(handed_in.notebook, ensure_ascii=False, indent=1)
    return f"{escape_json(text)}\n".encode()


def _make_output(
    data: Mapping[str, str], metadata: Mapping[str, Any], notebook: Mapping[str, Any]
) -> dict[str, Any]:
    output = {"output_type": "display_data", "metadata": dict(metadata)}
    if notebook["nbformat"] == 3:
        return {**output, **{JUPYTER_3_NAMES[kind]: text for kind, text in data.items()}}
    return {**output, "data": dict(data)}


def _remove_added(cell: dict[str, Any]) -> bool:
    """Remove our key and the outputs that bear it; return whether other outputs name headcheck."""
    _get_metadata(cell).pop(KEY, None)
    own = [each for each in cell["outputs"] if KEY not in _get_metadata(each)]
    cell["outputs"] = own
    return KEY in json.dumps(own).lower() or is_named(_list_texts(own))


def _list_texts(part: Any) -> Iterator[str]:
    """Yield the texts in outputs; what Jupyter does not show is left out."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, list):
        for each in part:
            yield from _list_texts(each)
    elif isinstance(part, dict):
        for name, each in part.items():
            if name not in HIDDEN and not name.startswith(PICTURES):
                yield from _list_texts(each)


def _get_metadata(part: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a cell or an output; outputs of unknown types may have any others."""
    metadata = part.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _ensure_valid(notebook: dict[str, Any], cells: list[Any]) -> None:
    """Raise Unreadable unless nbformat finds the notebook valid; unknown fields are allowed.

    Jupyter adds ids that are missing, and so do we, but always the same.
    """
    version = notebook.get("nbformat"), notebook.get("nbformat_minor")
    try:
        if version[0] not in VERSIONS:
            raise ValueError(version)
        if version >= FIRST_WITH_IDS:
            ids = {cell.setdefault("id", f"cell-{number}") for number, cell in enumerate(cells, 1)}
            if len(ids) < len(cells):
                raise ValueError(ids)
        # `nbformat.validate` would look for the best words for an error, which can take minutes.
        get_validator(*version, relax_add_props=True).validate(notebook)
        json.dumps(notebook, allow_nan=False)
    except Exception:  # the validator relies on types before it checks them
        raise Unreadable("The notebook is not valid for Jupyter.") from None
