"""What every export is made of, and the few things that all of them must get right."""

import csv
import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from grader.course import CourseError
from grader.course.export.sheet import Sheet
from grader.course.intake.roster import Roster, Student
from grader.course.results import SCORE_DECIMALS, ExerciseResult
from grader.report.render.sanitise import sanitise
from grader.report.render.view import describe_hidden

FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""what makes a spreadsheet take text for a formula"""
MAX_FEEDBACK = 2000
"""how many characters of feedback a gradebook gets"""


class ExportError(CourseError):
    """Results that a format cannot take; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class Gradebook:
    """The results of a run, and who the students are."""

    run: str
    results: tuple[ExerciseResult, ...]
    roster: Roster = field(default_factory=Roster)
    sheet: Sheet | None = None
    database: bytes = b""
    """the database to be filled in, of formats that are none of sheets"""
    column: str = ""
    """the gradebook's name for the grade; else the run's"""

    @property
    def exercises(self) -> tuple[str, ...]:
        """What was answered, by name."""
        return tuple(sorted({each.exercise for each in self.results}))

    @property
    def students(self) -> dict[str, list[ExerciseResult]]:
        """Everybody's results."""
        found: dict[str, list[ExerciseResult]] = {}
        for each in self.results:
            found.setdefault(each.student, []).append(each)
        return found

    @property
    def total(self) -> float:
        """All points of everybody: every format must have as many."""
        return sum_points(self.results)

    def make_column_title(self, exercise: str) -> str:
        """What a column for an exercise is called."""
        name = self.column or self.run
        return name if len(self.exercises) < 2 else f"{name} {exercise}".rstrip()

    def find_student(self, result: ExerciseResult) -> Student:
        """Who it is, as the roster knows; else as the hand-in says."""
        listed = self.roster.match(result.student, name=result.student)
        return listed or Student(result.student, result.name, email=result.email)


@dataclass(frozen=True, slots=True)
class ExportedFiles:
    """Files by their names, and whom they say nothing about."""

    files: Mapping[str, bytes]
    left_out: tuple[str, ...] = ()


def sum_points(results: Iterable[ExerciseResult]) -> float:
    """The sum of what counts."""
    return round(sum(each.score for each in results), SCORE_DECIMALS)


def sum_max_points(results: Iterable[ExerciseResult]) -> float:
    """The points that there are."""
    return round(sum(each.max_score for each in results), SCORE_DECIMALS)


def format_number(value: float) -> str:
    """Points as gradebooks read them: no exponent, no needless zeros."""
    text = f"{value:.{SCORE_DECIMALS}f}".rstrip("0").rstrip(".")
    return "0" if text in ("", "-0") else text


def escape_cell(text: str) -> str:
    """Text for a spreadsheet: harmless, and never a formula, which would run when it is opened."""
    clean = sanitise(text)
    return f"'{clean}" if clean.lstrip(" ").startswith(FORMULA_PREFIXES) else clean


def encode_csv(rows: Iterable[Sequence[str]], delimiter: str = ",") -> bytes:
    """Rows as CSV in UTF-8, quoted where it must be."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n").writerows(rows)
    return buffer.getvalue().encode()


def format_feedback(results: Sequence[ExerciseResult]) -> str:
    """What a student reads beside the grade: what people wrote, then what is wrong."""
    lines = list(dict.fromkeys(text for each in results for text in each.comments))
    for each in results:
        if each.record.error is not None:
            lines.append(each.record.error.message)
        lines += [found.sentence for found in each.record.diagnosis]
        lines += describe_hidden(each.record.hidden)
    return sanitise("\n".join(lines), MAX_FEEDBACK)


def make_file_name(student: str, ending: str) -> str:
    """A file name for a student, whatever the id is; no two are equal."""
    safe = quote(student, safe=" ").replace(".", "%2E")
    if len(safe) > 100:
        safe = f"{safe[:60]}-{hashlib.sha256(student.encode()).hexdigest()[:16]}"
    return f"{safe}{ending}"
