"""Write the sheet in which people mark by hand, and read the marks back from it.

A cell that is empty changes nothing: two people may fill in sheets that were written at the same
time. Each row says who handed in the work, which a group shares, since the exported code is called
so.
"""

import hashlib
import hmac
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from headcheck.grader.course import CourseError
from headcheck.grader.course.export.gradebook import (
    FORMULA_PREFIXES,
    NUMBER,
    ExportedFiles,
    ExportError,
    Gradebook,
    encode_csv,
    escape_cell,
    format_number,
)
from headcheck.grader.course.export.sheet import Sheet
from headcheck.grader.course.marks import MarkedCriterion, list_criterion_names
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.course.store.records import Mark
from headcheck.grader.grouped import group_by
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.rounding import round_sum
from headcheck.grader.report.rubric import SHEET_COLUMNS

STUDENT, _, EXERCISE, _ = SHEET_COLUMNS
COMMENT = " comment"
"""the ending of the header of a criterion's comments; no name of a criterion has a space"""
NO_RUBRIC = (
    "has no rubric: write one into the course file, and give that file to "
    "`headcheck regrade RUN --course FILE`"
)
DIGITS = 15
"""digits of a number that stands for a student: two of 2,000 are the same once in 10⁹ runs"""


class MarkError(CourseError):
    """A mark that cannot be taken; the message says which one and why."""


def render(book: Gradebook) -> ExportedFiles:
    """Return one CSV file with a row for every result that people mark.

    Members of a group who share their work have a row each.
    Raises ExportError if there is no rubric.
    """
    names = _list_names(book.results)
    if not names:
        raise ExportError(f"{book.run}: {NO_RUBRIC}")
    columns = [title for name in names for title in (name, f"{name}{COMMENT}")]
    rows = [[*SHEET_COLUMNS, *columns]]
    for each in _sort_by_work(book.results):
        if each.criteria:
            display = book.find_student(each).display_name
            name = "" if display == each.student else display
            about = (each.student, name, each.exercise, each.handed_in_by)
            rows.append([*map(escape_cell, about), *_list_cells(each, names)])
    remarks = _find_alike(each.student for each in book.results).values()
    return ExportedFiles({"marks.csv": encode_csv(rows, bom=True)}, remarks=tuple(remarks))


def _sort_by_work(results: Sequence[ExerciseResult]) -> list[ExerciseResult]:
    """Return results in their order, but those of the same work one after the other."""
    places: dict[str, int] = {}
    for each in results:
        places.setdefault(each.handed_in_by, len(places))
    return sorted(results, key=lambda each: places[each.handed_in_by])


def _list_names(results: Sequence[ExerciseResult]) -> list[str]:
    return list_criterion_names(each for result in results for each in result.criteria)


def _list_cells(result: ExerciseResult, names: Sequence[str]) -> Iterator[str]:
    found = {each.criterion.name: each for each in result.criteria}
    for name in names:
        each = found.get(name)
        yield "" if each is None or each.points is None else format_number(each.points)
        yield "" if each is None else escape_cell(each.comment)


def read_marks(
    sheet: Sheet, results: Sequence[ExerciseResult], students: Mapping[str, str]
) -> list[Mark]:
    """Return what a filled-in sheet changes. `students` are ids by their cells.

    Raises MarkError, with the row, at the first cell that cannot be taken.
    """
    by_key = {(each.student, each.exercise): each for each in results if each.criteria}
    names = _list_names(results)
    alike = _find_alike(each.student for each in results)
    _refuse_headers(sheet.header, names)
    entries: dict[tuple[str, str, str], Mark] = {}
    for number, row in enumerate(sheet.rows, start=2):
        cells = dict(zip(sheet.header, row, strict=True))
        try:
            if (cell := cells[STUDENT].strip()) in alike and _is_filled_in(cells, names):
                raise MarkError(alike[cell])
            for entry in _read_row(cells, by_key, students, names):
                if entry.key in entries:
                    raise MarkError("there is another row for the same exercise")
                entries[entry.key] = entry
        except MarkError as error:
            where = f"row {number} ({sanitise_line(cells[STUDENT], 60)})"
            raise MarkError(f"{where}: {error}; no mark was changed") from None
    return list(entries.values())


def _find_alike(students: Iterable[str]) -> dict[str, str]:
    """Return what is wrong with a cell that stands for several students."""
    written = group_by(dict.fromkeys(students), lambda student: escape_cell(student).strip())
    advice = "mark them with numbers, as --anonymous writes them, or one by one"
    return {
        cell: f"{' and '.join(map(sanitise_line, ids))} are the same cell; {advice}"
        for cell, ids in written.items()
        if len(ids) > 1
    }


def _is_filled_in(cells: Mapping[str, str], names: Sequence[str]) -> bool:
    return any(cells.get(f"{name}{end}", "").strip() for name in names for end in ("", COMMENT))


def _refuse_headers(header: Sequence[str], names: Sequence[str]) -> None:
    if STUDENT not in header:
        raise MarkError(f"the sheet has no column {STUDENT!r}: {', '.join(header)}")
    known = {*SHEET_COLUMNS, *names, *(f"{name}{COMMENT}" for name in names)}
    for title in header:
        if title not in known:
            text = f"there is no criterion {sanitise_line(title)!r}; there are {', '.join(names)}"
            raise MarkError(f"{text}; no mark was changed")
        if header.count(title) > 1:
            raise MarkError(f"the sheet has two columns {title!r}; no mark was changed")


def _read_row(
    cells: Mapping[str, str],
    results: Mapping[tuple[str, str], ExerciseResult],
    students: Mapping[str, str],
    names: Sequence[str],
) -> Iterator[Mark]:
    result = _find_result(cells, results, students)
    found = {each.criterion.name: each for each in result.criteria}
    for name in names:
        points, comment = cells.get(name, "").strip(), cells.get(f"{name}{COMMENT}", "").strip()
        if not points and not comment:
            continue
        if name not in found:
            raise MarkError(f"{result.exercise} has no criterion {name!r}")
        entry = _read_cells(result, found[name], points, comment)
        if entry is not None:
            yield entry


def _find_result(
    cells: Mapping[str, str],
    results: Mapping[tuple[str, str], ExerciseResult],
    students: Mapping[str, str],
) -> ExerciseResult:
    student = students.get(cells[STUDENT].strip())
    own = {exercise: each for (who, exercise), each in results.items() if who == student}
    if not own:
        raise MarkError("nobody with this id or number has anything to mark")
    slug = cells.get(EXERCISE, "").strip()
    if slug and slug not in own:
        raise MarkError(f"there is nothing to mark in {sanitise_line(slug)!r}")
    if not slug and len(own) > 1:
        raise MarkError(f"name the exercise in a column {EXERCISE!r}")
    return own[slug] if slug else next(iter(own.values()))


def _read_cells(
    result: ExerciseResult, present: MarkedCriterion, points: str, comment: str
) -> Mark | None:
    """Return what two cells change; None if they hold what the sheet was written with."""
    name, most = present.criterion.name, present.criterion.points
    given = read_points(points, most, name) if points else present.points
    if given is None:
        raise MarkError(f"a comment on {name!r} needs points beside it")
    same = comment in ("", escape_cell(present.comment))
    if same and given == present.points:
        return None
    text = present.comment if same else clean_comment(_unescape(comment))
    return Mark(result.student, result.exercise, name, given, text)


def read_points(text: str, most: float, what: str) -> float:
    """Return points for something as somebody wrote them, with a point or a comma.

    Raises MarkError.
    """
    shown = sanitise_line(text.strip(), 80)
    if not NUMBER.fullmatch(text.strip()):
        raise MarkError(f"{what}: '{shown}' is no number of points, as in 2.5")
    points = float(text.strip().replace(",", "."))
    if points > most:
        raise MarkError(f"{what}: {shown} is over the {format_number(most)} points there are")
    return round_sum(points)


def _unescape(text: str) -> str:
    """Return the text in a cell without the apostrophe that kept it from being a formula."""
    quoted = text.startswith("'") and text[1:].lstrip(" ").startswith(FORMULA_PREFIXES)
    return text[1:] if quoted else text


def clean_comment(text: str) -> str:
    """Return a comment as it is stored: what cannot be shown is escaped, and its length limited."""
    return sanitise("\n".join(text.splitlines()).strip())


def list_cells_of_students(students: Collection[str], secret: str) -> dict[str, str]:
    """Return the ids of students by what may stand in a sheet: the id, or the number."""
    numbers = number_students(students, secret)
    by_number = {number: student for student, number in numbers.items()}
    return by_number | {escape_cell(each).strip(): each for each in students}


def number_students(students: Collection[str], secret: str) -> dict[str, str]:
    """Return a number for each student, which reveals nothing to those without the secret."""
    return {each: _make_number(each, secret) for each in students}


def _make_number(student: str, secret: str) -> str:
    digest = hmac.digest(secret.encode(), student.encode(), hashlib.sha256)
    digits = f"{int.from_bytes(digest) % 10**DIGITS:0{DIGITS}}"
    # With hyphens a spreadsheet takes it for text, and drops no digits.
    return "-".join(digits[i : i + 5] for i in range(0, DIGITS, 5))
