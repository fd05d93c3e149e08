"""Write what was found into the students' own notebooks, below the cells that it is about.

What is written is what other exports say: results as they are released. A file that is no valid
notebook gets a page instead. Files that came in nbgrader's folders keep their places, so that the
export can be nbgrader's folder `feedback`.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from markupsafe import escape

from headcheck.grader.course.export.annotation import HandedIn, annotate, read_handed_in
from headcheck.grader.course.export.gradebook import (
    MAX_FEEDBACK,
    ExportedFiles,
    Gradebook,
    make_file_name,
    make_numbered_name,
)
from headcheck.grader.course.intake.layouts import NBGRADER_FOLDER
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.grouped import group_by
from headcheck.grader.reading.cells import Unreadable
from headcheck.grader.report.records import SubmissionRecord, build_report
from headcheck.grader.report.render import text
from headcheck.grader.report.render.heading import Occasion
from headcheck.grader.report.render.html import render_all, render_feedback
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.render.view import MAX_NOTES, format_points, list_located
from headcheck.grader.report.rounding import format_number
from headcheck.properties.counting import join_words

MAX_LOCATED = 500
"""characters of a sentence about a line"""


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
                written = _write_into(read_handed_in(content.data), results, book.run)
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


# -------------------------------------------------------------------------- notebooks


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
    return annotate(handed_in, added, label)


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
