"""The gradebook from which every export is made, and the formatting that the exports share."""

import csv
import hashlib
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from headcheck.grader.course import CourseError
from headcheck.grader.course.export.sheet import Sheet
from headcheck.grader.course.intake.roster import Roster, Student, build_roster
from headcheck.grader.course.marks import describe_marks
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.course.store.bundle import Unpacked
from headcheck.grader.course.store.records import GradedFile
from headcheck.grader.grouped import group_by
from headcheck.grader.report.collation import collate
from headcheck.grader.report.records import PropertyRecord, SubmissionRecord
from headcheck.grader.report.render.outcome import describe_outcome
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.render.sentences import describe_hidden
from headcheck.grader.report.rounding import format_number as format_number  # exports find it here
from headcheck.grader.report.rounding import round_sum, share_out

FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""the beginnings that make a spreadsheet take text for a formula"""
NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
"""a number of a sheet, with a decimal point or comma"""
MAX_FEEDBACK = 2000
"""characters of feedback in a gradebook"""


class ExportError(CourseError):
    """A format cannot represent some results; the message says which ones and what to do."""


@dataclass(frozen=True, slots=True)
class Gradebook:
    """The results of a run and its students."""

    run: str
    results: tuple[ExerciseResult, ...]
    roster: Roster = field(default_factory=Roster)
    sheet: Sheet | None = None
    database: bytes = b""
    """the database to be filled in, for formats without a sheet"""
    code: tuple[tuple[GradedFile, Unpacked], ...] = ()
    """the files that were graded and their contents, for the formats made from files"""
    column: str = ""
    """the gradebook's name for the grade; by default the run's name"""

    @property
    def exercises(self) -> tuple[str, ...]:
        """The names of the answered exercises; "" only if no file answers an exercise."""
        found = {each.exercise for each in self.results}
        return tuple(sorted(found - {""} or found))

    @property
    def maxima(self) -> dict[str, float]:
        """The maximum points of each of the exercises, in their order."""
        best = dict.fromkeys(self.exercises, 0.0)
        for each in self.results:
            if each.exercise in best:
                best[each.exercise] = max(best[each.exercise], each.max_score)
        return best

    @property
    def students(self) -> dict[str, list[ExerciseResult]]:
        """The results of students who have a score for everything: others would get zeros."""
        waiting = self.waiting
        scored = (each for each in self.results if each.student not in waiting)
        return group_by(scored, lambda each: each.student)

    @property
    def absent(self) -> frozenset[str]:
        """The students who handed in nothing."""
        return frozenset(each.student for each in self.results if each.is_absent)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The students with work that could not be graded yet."""
        return tuple(dict.fromkeys(e.student for e in self.results if not e.is_judged))

    @property
    def total(self) -> float:
        """The sum of all students' points, which every format must preserve."""
        return sum_points(self.results)

    def make_column_title(self, exercise: str) -> str:
        """Return the title of an exercise's column."""
        name = self.column or self.run
        return name if len(self.exercises) < 2 else f"{name} {exercise}".rstrip()

    def find_student(self, result: ExerciseResult | GradedFile) -> Student:
        """Return the student of a result or file from the roster, else from the submission."""
        listed = self.roster.match(result.student, name=result.student)
        return listed or Student(result.student, result.name, email=result.email)


@dataclass(frozen=True, slots=True)
class ExportedFiles:
    """Files by name, and the students who are missing from them."""

    files: Mapping[str, bytes]
    left_out: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """remarks about unexpected or missing parts of the files, one line for each"""


def hide_students(book: Gradebook, numbers: Mapping[str, str]) -> Gradebook:
    """Replace students with their numbers, and leave out what people wrote about them.

    Messages, examples and code stay, and may contain names that a student chose.
    """
    results = [_hide_student(each, numbers) for each in book.results]
    results.sort(key=lambda each: (each.student, each.exercise))
    code = [
        (replace(file, student=numbers[file.student], name="", file="", submitted=None), content)
        for file, content in book.code
    ]
    code.sort(key=lambda each: (each[0].student, each[0].attempt, each[0].content))
    return Gradebook(book.run, tuple(results), code=tuple(code), column=book.column)


def _hide_student(result: ExerciseResult, numbers: Mapping[str, str]) -> ExerciseResult:
    number = numbers[result.student]
    return replace(
        result,
        student=number,
        name="",
        email="",
        handle="",
        submitted=None,
        comments=(),
        group="",
        handed_in_by=numbers.get(result.handed_in_by, number),
        criteria=tuple(each.without_comment() for each in result.criteria),
        record=replace(result.record, file="", student=number),
    )


def make_student_finder(book: Gradebook) -> Callable[[Sequence[str], str], str | None]:
    """Return a function from the ids and the name in a sheet's row to the student's id.

    It looks for the handle of a submission, else on the roster. A name counts only if exactly one
    student has it, and it is never taken for an id: a student called 17 does not get the grade of
    the student whose id is 17.
    """
    people = [book.find_student(each[0]) for each in book.students.values()]
    # Who has no name can be found by the id as a name.
    known = build_roster(
        each if each.display_name != each.id else replace(each, name=each.id) for each in people
    )
    handles = {each.handle: each.student for own in book.students.values() for each in own}

    def find_student(ids: Sequence[str], name: str) -> str | None:
        for handle in ids:
            if handle and handle in handles:
                return handles[handle]
        match = known.match(*(text for text in ids if text.strip()), name=name)
        return None if match is None else match.id

    return find_student


def list_left_out(
    book: Gradebook, rows: Iterable[str | None]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return who is missing from a sheet with rows of these students, and remarks on others.

    Nobody misses a row for who handed in nothing, nor for the member of a group whom no roster
    knows. Without a roster the sheet is one, if it has no row of a student without a grade.
    """
    found = set(rows)
    missing = book.students.keys() - found - book.absent
    is_known = book.roster or None not in found
    strangers = {who for who in missing if is_known and _is_stranger(book, who)}
    left_out, unknown = (sorted(each, key=collate) for each in (missing - strangers, strangers))
    listed = ", ".join(map(sanitise_line, unknown))
    remark = f"in a group, but on no roster and in no row of the sheet: {listed}"
    return tuple(left_out), (remark,) if unknown else ()


def _is_stranger(book: Gradebook, student: str) -> bool:
    """Whether a student has nothing but the work of a group, and is not on the roster."""
    own = book.students[student]
    return not book.roster.match(student) and all(
        each.group and each.handed_in_by != student for each in own
    )


def refuse_above(score: float, maximum: str, student: str, exercises: int = 1) -> None:
    """Raise ExportError if a sheet's cell for the maximum holds less than the points.

    `exercises` is how many exercises the points are of.
    """
    most = read_number(maximum)
    if most is not None and score > most:
        scaled = f"--out-of {format_number(most / exercises)}" if most else "--out-of"
        raise ExportError(
            f"{student} has {format_number(score)} points, and the sheet allows "
            f"{format_number(most)}: scale the points with {scaled}, or change the maximum there"
        )


def compare_maxima(maximum: str, most: float, exercises: int = 1) -> tuple[str, ...]:
    """Return a remark if a sheet's cell holds another maximum than the results have."""
    there = read_number(maximum)
    if not there or round_sum(there) == round_sum(most):
        return ()
    return (
        f"the sheet has a maximum of {format_number(there)} points, and the run one of "
        f"{format_number(most)}: --out-of {format_number(there / exercises)} scales the points",
    )


def read_number(text: str) -> float | None:
    """Return the number in a sheet's cell; None if there is none."""
    return float(text.replace(",", ".")) if NUMBER.fullmatch(text) else None


def sum_points(results: Iterable[ExerciseResult]) -> float:
    """Return the sum of the scores."""
    return round_sum(sum(each.score for each in results))


def sum_max_points(results: Iterable[ExerciseResult]) -> float:
    """Return the sum of the maximum points."""
    return round_sum(sum(each.max_score for each in results))


def round_properties(record: SubmissionRecord) -> list[PropertyRecord]:
    """Return what is shown of properties with points in hundredths; the maxima add up exactly."""
    maxima = [p.max_points for p in record.properties]
    shares = share_out(maxima, round_sum(sum(maxima)))
    return [
        replace(p, points=most if p.points else 0.0, max_points=most)
        for p, most in zip(record.properties, shares, strict=True)
    ]


def escape_cell(text: str) -> str:
    """Sanitise text for a spreadsheet, which executes formulas when it is opened."""
    clean = sanitise(text)
    return f"'{clean}" if clean.lstrip(" ").startswith(FORMULA_PREFIXES) else clean


def encode_csv(rows: Iterable[Sequence[str]], delimiter: str = ",", *, bom: bool = False) -> bytes:
    """Encode rows as CSV in UTF-8, quoted where necessary, after a byte-order mark if asked to."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n").writerows(rows)
    return buffer.getvalue().encode("utf-8-sig" if bom else "utf-8")


def format_feedback(results: Sequence[ExerciseResult]) -> str:
    """Return the text next to a student's grade: what people say and mark, then the verdict.

    If points were taken off because the work came late, it says so.
    """
    lines = list(dict.fromkeys(text for each in results for text in each.comments))
    for each in results:
        lines += describe_marks(each.criteria)
        lines += [each.explanation] if each.explanation else []
        lines += describe_outcome(each.record)
        lines += describe_hidden(each.record.hidden)
    return sanitise("\n".join(lines), MAX_FEEDBACK)


def make_file_name(student: str, ending: str) -> str:
    """Return a valid file name for any student id; different ids have different names.

    Letters and digits of all scripts are kept.
    """
    # File systems compose accents or take them apart, so only a composed id keeps its marks.
    composed = unicodedata.is_normalized("NFC", student)
    safe = "".join(c if _is_plain(c, composed=composed) else _escape(c) for c in student)
    if len(safe.encode()) > 150:
        safe = f"{safe[:40]}-{hashlib.sha256(student.encode()).hexdigest()[:16]}"
    return f"{safe}{ending}"


def make_numbered_name(student: str, number: int, ending: str) -> str:
    """Return a valid name for one of several files of a student, numbered from 1."""
    # No id has a dot in a file name, so a number after one belongs to no other student.
    return make_file_name(student, ending if number == 1 else f".{number}{ending}")


def _escape(character: str) -> str:
    return "%2E" if character == "." else quote(character, safe="")


def _is_plain(character: str, *, composed: bool) -> bool:
    """Whether a character of an id may occur in a file name."""
    if character.isascii():
        return character.isalnum() or character in " _-~"
    return character.isalnum() or (composed and unicodedata.category(character) in ("Mn", "Mc"))
