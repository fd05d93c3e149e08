"""Write a CSV row for every student and exercise, for any other use."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_type_hints

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


@dataclass(frozen=True, slots=True)
class GradebookRow:
    """One student's result in one exercise. The names of the fields are those of the columns."""

    student: str
    name: str
    email: str
    section: str
    handle: str
    run: str
    exercise: str
    score: float | None
    """None if there is no verdict yet"""
    max_score: float
    judged: float | None
    """the automatic points"""
    marked: float
    """what marks by hand add to them"""
    not_yet_marked: str
    """the criteria without a mark"""
    taken_off: float
    """the points that late work lost"""
    penalty: str
    """the same in words, such as `10 % late`"""
    overridden: bool
    status: str
    not_asked: int
    """how many checks there was no time for, or not on all inputs"""
    diagnosis: str
    attempt: int
    late: bool
    submitted: str
    group: str
    file: str
    feedback: str
    """the feedback for the student, as in a gradebook"""


def make_table(book: Gradebook) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the types of all columns and the rows, by student and exercise.

    The points of each criterion that people mark have a column after the others.
    """
    names = list_criterion_names(c for each in book.results for c in each.criteria)
    types = get_type_hints(GradebookRow) | {f"mark_{name}": float | None for name in names}
    rows = [asdict(_make_row(book, each)) | _list_marks(each, names) for each in book.results]
    return types, rows


def _list_marks(result: ExerciseResult, names: Sequence[str]) -> dict[str, float | None]:
    points = {each.criterion.name: each.points for each in result.criteria}
    return {f"mark_{name}": points.get(name) for name in names}


def _make_row(book: Gradebook, each: ExerciseResult) -> GradebookRow:
    person = book.find_student(each)
    return GradebookRow(
        student=each.student,
        name=person.display_name,
        email=person.email,
        section=person.section,
        handle=each.handle,
        run=book.run,
        exercise=each.exercise,
        score=each.score if each.is_judged else None,
        max_score=each.max_score,
        judged=None if each.status == NOT_JUDGED else each.judged,
        marked=each.marked,
        not_yet_marked=" ".join(list_criterion_names(c for c in each.criteria if c.is_open)),
        taken_off=each.taken_off,
        penalty=each.penalty,
        overridden=each.override is not None,
        status=each.status,
        not_asked=sum(p.status == Status.NOT_ASKED for p in each.record.properties),
        diagnosis=" ".join(found.name for found in each.record.diagnosis),
        attempt=each.attempt,
        late=each.late,
        submitted=each.submitted or "",
        group=each.group,
        file=sanitise(each.record.file),
        feedback=format_feedback([each]),
    )


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
