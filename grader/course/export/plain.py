"""A row for every student and exercise: as CSV, for whoever has other plans."""

from dataclasses import dataclass, fields

from grader.course.export.gradebook import Exported, Gradebook, cell, csv_of, number
from grader.report.render.sanitise import harmless


@dataclass(frozen=True, slots=True)
class Row:
    """One student's result in one exercise. The names of the fields are those of the columns."""

    student: str
    name: str
    email: str
    section: str
    handle: str
    run: str
    exercise: str
    score: float
    max_score: float
    judged: float
    """points without what a person decided"""
    overridden: bool
    status: str
    diagnosis: str
    attempt: int
    late: bool
    submitted: str
    file: str


def rows(book: Gradebook) -> list[Row]:
    """The results of a run as rows, by student and exercise."""
    found = []
    for each in book.standings:
        person = book.person(each)
        found.append(
            Row(
                student=each.student,
                name=person.shown,
                email=person.email,
                section=person.section,
                handle=each.handle,
                run=book.run,
                exercise=each.exercise,
                score=each.score,
                max_score=each.max_score,
                judged=each.judged,
                overridden=each.override is not None,
                status=each.status,
                diagnosis=" ".join(found.name for found in each.record.diagnosis),
                attempt=each.attempt,
                late=each.late,
                submitted=each.submitted or "",
                file=harmless(each.record.file),
            )
        )
    return found


def render(book: Gradebook) -> Exported:
    """One CSV file."""
    names = [each.name for each in fields(Row)]
    lines = [[_cell(getattr(row, name)) for name in names] for row in rows(book)]
    return Exported({"grades.csv": csv_of([names, *lines])})


def _cell(value: str | float | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return cell(value) if isinstance(value, str) else number(value)
