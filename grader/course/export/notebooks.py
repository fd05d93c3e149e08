"""Write what was found into the students' own notebooks, below the cells that it is about.

What is written is what other exports say: results as they are released. A file that is no valid
notebook gets a page instead. Files that came in nbgrader's folders keep their places, so that the
export can be nbgrader's folder `feedback`.

What headcheck adds bears one key in the metadata of its output and of the cell. Whatever else
bears this key was not written by this export, or by an earlier one, and is removed. The source of a
cell never changes, and its other outputs stay.
"""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from markupsafe import escape
from nbformat.validator import get_validator

from headcheck.grader.course.export.gradebook import (
    MAX_FEEDBACK,
    ExportedFiles,
    Gradebook,
    make_file_name,
    make_numbered_name,
)
from headcheck.grader.course.export.own_name import is_named
from headcheck.grader.course.intake.layouts import NBGRADER_FOLDER
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.grouped import group_by
from headcheck.grader.reading.cells import (
    Unreadable,
    list_cells,
    number_code_cells,
    parse_notebook,
    select_code_cells,
)
from headcheck.grader.report.records import SubmissionRecord, build_report
from headcheck.grader.report.render import text
from headcheck.grader.report.render.heading import Occasion
from headcheck.grader.report.render.html import render_all, render_feedback
from headcheck.grader.report.render.sanitise import escape_json, sanitise, sanitise_line
from headcheck.grader.report.render.view import MAX_NOTES, format_points, list_located
from headcheck.grader.report.rounding import format_number
from headcheck.properties.counting import join_words

MAX_LOCATED = 500
"""characters of a sentence about a line"""
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


def render(book: Gradebook) -> ExportedFiles:
    """Return the notebook, or a page, for every file with a result that counts."""
    contents = {(g.student, g.attempt, g.file): content for g, content in book.code}
    files: dict[str, bytes] = {}
    remarks: list[str] = []
    counts: Counter[str] = Counter()
    shown = itertools.chain.from_iterable(book.students.values())
    by_file = group_by(shown, lambda each: (each.student, each.attempt, each.record.file))
    for key, results in by_file.items():
        content = contents.get(key)
        ending, written = ".html", b""
        if content is not None and content.kind == "ipynb":
            try:
                written = _write_into(_read_handed_in(content.data), results, book.run)
                ending = ".ipynb"
            except Unreadable as problem:
                remarks.append(f"{sanitise_line(f'{key[0]} ({key[2]})')}: a page, since: {problem}")
        counts[key[0]] += 1
        name = _find_nbgrader_name(results[0], ending)
        if not name or name in files:
            name = make_numbered_name(key[0], counts[key[0]], ending)
        if not written:
            report = build_report([each.record for each in results])
            written = render_all(report, Occasion(book.run), _summarise(results)).encode()
        files[name] = written
    return ExportedFiles(files, remarks=tuple(remarks))


def _find_nbgrader_name(result: ExerciseResult, ending: str) -> str:
    """Return `student/assignment/notebook` if the file came from nbgrader, else an empty text."""
    parts = PurePosixPath(result.record.file).parts
    if parts[-4:-2] != (NBGRADER_FOLDER, result.handle):
        return ""
    folders = [make_file_name(part, "") for part in parts[-3:-1]]
    return "/".join([*folders, make_file_name(PurePosixPath(parts[-1]).stem, ending)])


# -------------------------------------------------------------------------- feedback


def _write_into(handed_in: HandedIn, results: Sequence[ExerciseResult], run: str) -> bytes:
    order = list(handed_in.code)
    top = order[0]
    records: dict[int, list[SubmissionRecord]] = {}
    said: dict[int, list[str]] = {number: [] for number in handed_in.claiming}
    for record in (each.record for each in results):
        home = _find_home(record, handed_in)
        records.setdefault(home, []).append(record)
        for cell, line in _describe_lines(record):
            if cell is not None and cell in handed_in.code and cell != home:
                said.setdefault(cell, []).append(line)
    places = {top, *records, *(cell for cell, lines in said.items() if lines)}
    label = sanitise_line(run)
    cells = [str(cell) for cell in order if cell in places]
    words = "cell" if len(cells) == 1 else "cells"
    where = f"Feedback is below {words} {join_words(cells)}, nowhere else."
    said[top] = [*_summarise(results), where, *said.get(top, [])]
    added = {
        cell: _render(label, said.get(cell, []), records.get(cell, []))
        for cell in order
        if cell in places or cell in said
    }
    return _annotate(handed_in, added, label)


def _summarise(results: Iterable[ExerciseResult]) -> list[str]:
    """Return the score of each result, and what people said about it."""
    lines = []
    for each in results:
        exercise = sanitise_line(each.exercise) or "no exercise"
        decided = f", decided by a person; the checks gave {format_number(each.judged)}"
        points = format_points(each.score, each.max_score)
        lines.append(f"{exercise}: {points}{decided if each.override is not None else ''}")
    comments = dict.fromkeys(text for each in results for text in each.comments)
    return [*lines, *(line for c in comments for line in sanitise(c, MAX_FEEDBACK).split("\n"))]


def _find_home(record: SubmissionRecord, handed_in: HandedIn) -> int:
    """Return the cell of an error, else the last one that defines what was graded, else the first.

    The code is not parsed here: strangers wrote it.
    """
    at = None if record.error is None else record.error.cell
    if at is not None and at in handed_in.code:
        return at
    name = re.escape(record.name or "")
    defined = re.compile(rf"^[ \t]*(?:class|def|async[ \t]+def)[ \t]+{name}\b", re.MULTILINE)
    numbers = [n for n, code in handed_in.code.items() if record.name and defined.search(code)]
    return numbers[-1] if numbers else next(iter(handed_in.code))


def _describe_lines(record: SubmissionRecord) -> Iterator[tuple[int | None, str]]:
    """Yield each sentence about a line, with the line's cell."""
    notes = ((note.cell, note.line, note.message) for note in record.notes[:MAX_NOTES])
    for cell, line, sentence in (*list_located(record), *notes):
        start = "" if line is None else f"Line {line}: "
        yield cell, f"{start}{sanitise_line(sentence, MAX_LOCATED)}"


def _render(
    run: str, said: Sequence[str], records: Sequence[SubmissionRecord]
) -> Mapping[str, str]:
    """Return the output below a cell; one without content only says what it is not."""
    if not said and not records:
        denial = f"This was handed in with the notebook. It is not feedback of {run}."
        return {"text/html": f"<p>{escape(denial)}</p>", "text/plain": denial}
    about = f"Feedback of {run} by headcheck, added to this notebook. All above was handed in."
    report = text.render(build_report(records)).rstrip("\n") if records else ""
    plain = "\n\n".join(filter(None, (about, "\n".join(said), report)))
    return {"text/html": render_feedback(about, said, records), "text/plain": plain}


# -------------------------------------------------------------------------- annotation


def _read_handed_in(data: bytes) -> HandedIn:
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


def _annotate(handed_in: HandedIn, added: Mapping[int, Mapping[str, str]], run: str) -> bytes:
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
