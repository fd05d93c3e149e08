"""Write a CSV row for every student and exercise, for any other use."""

from dataclasses import dataclass, fields

from headcheck.grader.course.export.gradebook import (
    ExportedFiles,
    Gradebook,
    encode_csv,
    escape_cell,
    format_feedback,
    format_number,
)
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.report.records import NOT_JUDGED
from headcheck.grader.report.render.sanitise import sanitise


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
    """the points as graded, before any override"""
    overridden: bool
    status: str
    diagnosis: str
    attempt: int
    late: bool
    submitted: str
    file: str
    feedback: str
    """the feedback for the student, as in a gradebook"""


def make_rows(book: Gradebook) -> list[GradebookRow]:
    """Return the results of a run as rows, by student and exercise."""
    return [_make_row(book, each) for each in book.results]


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
        overridden=each.override is not None,
        status=each.status,
        diagnosis=" ".join(found.name for found in each.record.diagnosis),
        attempt=each.attempt,
        late=each.late,
        submitted=each.submitted or "",
        file=sanitise(each.record.file),
        feedback=format_feedback([each]),
    )


def render(book: Gradebook) -> ExportedFiles:
    """Return one CSV file."""
    names = [each.name for each in fields(GradebookRow)]
    lines = [[_format_cell(getattr(row, name)) for name in names] for row in make_rows(book)]
    return ExportedFiles({"grades.csv": encode_csv([names, *lines])})


def _format_cell(value: str | float | bool | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape_cell(value) if isinstance(value, str) else format_number(value)
