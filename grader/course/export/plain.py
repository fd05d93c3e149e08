"""Write a row for every student and exercise, for any other use: as CSV or, typed, as Parquet."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headcheck.grader.course.export.gradebook import (
    ExportedFiles,
    Gradebook,
    encode_csv,
    escape_cell,
    format_feedback,
    format_number,
)
from headcheck.grader.course.marks import list_criterion_names
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.report.records import NOT_JUDGED
from headcheck.grader.report.render.sanitise import sanitise
from headcheck.properties.violations.violation import Status

Columns = Mapping[str, tuple[type, Callable[[Gradebook, ExerciseResult], Any]]]
COLUMNS: Columns = {
    "student": (str, lambda _, each: each.student),
    "name": (str, lambda book, each: book.find_student(each).display_name),
    "email": (str, lambda book, each: book.find_student(each).email),
    "section": (str, lambda book, each: book.find_student(each).section),
    "handle": (str, lambda _, each: each.handle),
    "run": (str, lambda book, _: book.run),
    "exercise": (str, lambda _, each: each.exercise),
    # Empty if there is no verdict yet.
    "score": (float, lambda _, each: each.score if each.is_judged else None),
    "max_score": (float, lambda _, each: each.max_score),
    # The automatic points, what marks by hand add to them, and the criteria without a mark.
    "judged": (float, lambda _, each: None if each.status == NOT_JUDGED else each.judged),
    "marked": (float, lambda _, each: each.marked),
    "not_yet_marked": (str, lambda _, each: " ".join(_list_open(each))),
    # The points that late work lost, and the same in words, such as `10 % late`.
    "taken_off": (float, lambda _, each: each.taken_off),
    "penalty": (str, lambda _, each: each.penalty),
    "overridden": (bool, lambda _, each: each.override is not None),
    "status": (str, lambda _, each: each.status),
    # How many checks there was no time for, or not on all inputs.
    "not_asked": (int, lambda _, each: _count_not_asked(each)),
    "diagnosis": (str, lambda _, each: " ".join(found.name for found in each.record.diagnosis)),
    "attempt": (int, lambda _, each: each.attempt),
    "late": (bool, lambda _, each: each.late),
    "submitted": (str, lambda _, each: each.submitted or ""),
    "group": (str, lambda _, each: each.group),
    "file": (str, lambda _, each: sanitise(each.record.file)),
    # The feedback for the student, as in a gradebook.
    "feedback": (str, lambda _, each: format_feedback([each])),
}
"""the type of each column's cells, and what is in the cell of a result"""


def _list_open(result: ExerciseResult) -> list[str]:
    return list_criterion_names(each for each in result.criteria if each.is_open)


def _count_not_asked(result: ExerciseResult) -> int:
    return sum(p.status == Status.NOT_ASKED for p in result.record.properties)


def make_table(book: Gradebook) -> tuple[dict[str, type], list[dict[str, Any]]]:
    """Return the types of all columns and the rows, by student and exercise.

    The points of each criterion that people mark have a column after the others.
    """
    names = list_criterion_names(c for each in book.results for c in each.criteria)
    types = {name: type_ for name, (type_, _) in COLUMNS.items()}
    types |= {f"mark_{name}": float for name in names}
    rows = [
        {name: get_cell(book, each) for name, (_, get_cell) in COLUMNS.items()}
        | _list_marks(each, names)
        for each in book.results
    ]
    return types, rows


def _list_marks(result: ExerciseResult, names: Sequence[str]) -> dict[str, float | None]:
    points = {each.criterion.name: each.points for each in result.criteria}
    return {f"mark_{name}": points.get(name) for name in names}


def render(book: Gradebook) -> ExportedFiles:
    """Return one CSV file."""
    types, rows = make_table(book)
    lines = [[_format_cell(row[name]) for name in types] for row in rows]
    return ExportedFiles({"grades.csv": encode_csv([list(types), *lines])})


def _format_cell(value: str | float | bool | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape_cell(value) if isinstance(value, str) else format_number(value)


def render_parquet(book: Gradebook) -> ExportedFiles:
    """Return one file of Parquet. Text is not escaped: Parquet has no formulas."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {str: pa.string(), float: pa.float64(), bool: pa.bool_(), int: pa.int32()}
    types, rows = make_table(book)
    schema = pa.schema([(name, kinds[type_]) for name, type_ in types.items()])
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), buffer)
    return ExportedFiles({"grades.parquet": buffer.getvalue()})
