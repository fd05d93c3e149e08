"""Moodle: the offline grading worksheet, filled in, and a CSV file for the gradebook's import.

The worksheet's headers are in the language of whoever downloaded it, and its columns depend on
settings. So columns are found by what is in them, and everything else is left as it is.

Source: https://docs.moodle.org/en/Assignment_settings and https://docs.moodle.org/en/Grade_import
"""

import itertools
import re
from collections.abc import Sequence

from grader.course.export.gradebook import (
    ExportedFiles,
    ExportError,
    Gradebook,
    encode_csv,
    escape_cell,
    format_feedback,
    format_number,
    sum_points,
)
from grader.course.export.sheet import Sheet, build_sheet_roster, find_student

NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
COMMENT_HEADER = re.compile(r"feedback|comment|coment|komment|commenti|retro|opmerk", re.I)
IDENTITY_COLUMNS = 3
"""a participant's number, name and address come first"""


def render_worksheet(book: Gradebook) -> ExportedFiles:
    """The worksheet with grades and feedback. Raises NotExported for one that cannot take them.

    Who has no result keeps what was there.
    """
    if book.sheet is None:
        raise ExportError("Moodle's worksheet is filled in: download it and give it by --into")
    sheet = book.sheet
    grade = _find_grade_column(sheet, book.column)
    comments = _find_comment_column(sheet, grade)
    known = build_sheet_roster(book.find_student(each[0]) for each in book.students.values())
    handles = {each.handle: each.student for each in book.results}
    rows: list[Sequence[str]] = [sheet.header]
    found: set[str] = set()
    for row in sheet.rows:
        number, name, address, *_ = (*row[: min(IDENTITY_COLUMNS, grade)], "", "", "")
        digits = number.rpartition(" ")[2]  # "Participant 123", in any language
        student = find_student((number, digits, address), name, known, handles)
        filled = list(row)
        if student is not None:
            found.add(student)
            theirs = book.students[student]
            filled[grade] = _format_localised(
                sum_points(theirs), row[grade + 1 : grade + 2], student
            )
            if comments is not None and (text := format_feedback(theirs)):
                filled[comments] = escape_cell(text)
        rows.append(filled)
    files = {"moodle-worksheet.csv": encode_csv(rows, sheet.delimiter)}
    return ExportedFiles(files, tuple(sorted(book.students.keys() - found)))


def _find_grade_column(sheet: Sheet, named: str) -> int:
    """The column of that name; else the one before the column of maximum grades."""
    if named:
        if named not in sheet.header:
            raise ExportError(f"the worksheet has no column {named!r}: {', '.join(sheet.header)}")
        return sheet.header.index(named)
    columns = list(zip(*sheet.rows, strict=True))
    found = [
        i
        for i, (left, right) in enumerate(itertools.pairwise(columns))
        if i and _is_maximum(right) and all(_is_grade(text) for text in left)
    ]
    if len(found) != 1:
        raise ExportError(
            "it is not clear which column of the worksheet takes the grade: name it by --column. "
            f"There are: {', '.join(sheet.header)}"
        )
    return found[0]


def _is_maximum(column: Sequence[str]) -> bool:
    return len(set(column)) == 1 and NUMBER.fullmatch(column[0].strip()) is not None


def _is_grade(text: str) -> bool:
    return text.strip() in ("", "-") or NUMBER.fullmatch(text.strip()) is not None


def _find_comment_column(sheet: Sheet, grade: int) -> int | None:
    """The last column that is called so in some language."""
    found = [i for i, name in enumerate(sheet.header) if i > grade and COMMENT_HEADER.search(name)]
    return found[-1] if found else None


def _format_localised(score: float, maximum: Sequence[str], student: str) -> str:
    """Points with the decimal mark of the sheet. Raises NotExported where they are too many."""
    told = maximum[0].strip() if maximum else ""
    if NUMBER.fullmatch(told) is None:
        return format_number(score)
    most = float(told.replace(",", "."))
    if score > most:
        raise ExportError(
            f"{student} has {format_number(score)} points, and the worksheet takes "
            f"{format_number(most)}: "
            "change the maximum grade there, or the points by `headcheck regrade --points`"
        )
    return format_number(score).replace(".", ",") if "," in told else format_number(score)


def render_gradebook(book: Gradebook) -> ExportedFiles:
    """A CSV file to import into the gradebook: a grade and feedback for everybody who has one.

    Feedback never comes without a grade: importing that would remove the grade.
    """
    title = escape_cell(book.column or book.run)
    rows = [["ID number", "Email address", "Full name", title, f"{title} (feedback)"]]
    for student, results in book.students.items():
        person = book.find_student(results[0])
        texts = (student, person.email, person.display_name)
        rows.append(
            [
                *map(escape_cell, texts),
                format_number(sum_points(results)),
                escape_cell(format_feedback(results)),
            ]
        )
    return ExportedFiles({"moodle-gradebook.csv": encode_csv(rows)})
