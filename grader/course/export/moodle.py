"""Write Moodle's offline grading worksheet, and a CSV file for the gradebook's import.

The worksheet's headers are in the language of the instructor who downloaded it, and its columns
depend on settings. So columns are found by their contents, and everything else is left unchanged.

Source: https://docs.moodle.org/en/Assignment_settings and https://docs.moodle.org/en/Grade_import
"""

import itertools
import re
from collections.abc import Sequence

from headcheck.grader.course.export.gradebook import (
    NUMBER,
    ExportedFiles,
    ExportError,
    Gradebook,
    compare_maxima,
    encode_csv,
    escape_cell,
    format_feedback,
    format_number,
    list_left_out,
    make_student_finder,
    refuse_above,
    sum_points,
)
from headcheck.grader.course.export.sheet import Sheet

COMMENT_HEADER = re.compile(r"feedback|comment|coment|komment|commenti|retro|opmerk", re.I)
NO_COMMENT_COLUMN = (
    "no feedback in it: the worksheet has no column for comments after the column for the grade"
)
IDENTITY_COLUMNS = 3
"""the first columns: a participant's number, name and address"""


def render_worksheet(book: Gradebook) -> ExportedFiles:
    """Return the worksheet with grades and feedback. Raises ExportError if it does not fit them.

    Rows of students without a result are left unchanged, and so are grades of those who handed in
    nothing.
    """
    if book.sheet is None:
        raise ExportError("this fills in Moodle's worksheet: download it and give it with --into")
    sheet = book.sheet
    grade = _find_grade_column(sheet, book.column)
    # The last column titled as feedback or comments, in some language.
    titled = [i for i, name in enumerate(sheet.header) if i > grade and COMMENT_HEADER.search(name)]
    comments = titled[-1] if titled else None
    find_student = make_student_finder(book)
    students, absent = book.students, book.absent
    rows: list[Sequence[str]] = [sheet.header]
    found: list[str | None] = []
    maximum = ""
    for row in sheet.rows:
        number, name, address, *_ = (*row[: min(IDENTITY_COLUMNS, grade)], "", "", "")
        word = number.rpartition(" ")[2]
        digits = number[len(number.rstrip("0123456789")) :]  # `Teilnehmer/in123`, in any language
        student = find_student((number, word, digits, address), name)
        filled = list(row)
        found.append(student)
        maximum = "".join(row[grade + 1 : grade + 2]).strip()
        if student is not None and not (student in absent and _has_number(row[grade])):
            results = students[student]
            score = sum_points(results)
            refuse_above(score, maximum, student, len(book.exercises))
            points = format_number(score)  # with the sheet's decimal mark
            filled[grade] = points.replace(".", ",") if "," in maximum else points
            if comments is not None and (text := format_feedback(results)):
                filled[comments] = escape_cell(text)
        rows.append(filled)
    files = {"moodle-worksheet.csv": encode_csv(rows, sheet.delimiter, bom=sheet.bom)}
    left_out, strangers = list_left_out(book, found)
    remarks = strangers + compare_maxima(maximum, sum(book.maxima.values()), len(book.exercises))
    remarks += () if comments is not None else (NO_COMMENT_COLUMN,)
    return ExportedFiles(files, left_out, remarks)


def _find_grade_column(sheet: Sheet, named: str) -> int:
    """Return the column of this name, else the column before that of the maximum grades."""
    if named:
        if named not in sheet.header:
            raise ExportError(f"the worksheet has no column {named!r}: {', '.join(sheet.header)}")
        return sheet.header.index(named)
    columns = list(zip(*sheet.rows, strict=True))
    candidates = [
        i
        for i, (left, right) in enumerate(itertools.pairwise(columns))
        if i and _is_maximum(right) and all(map(_is_grade, left))
    ]
    if len(candidates) != 1:
        raise ExportError(
            "it is not clear which column of the worksheet is for the grade: name it "
            f"with --column. There are: {', '.join(sheet.header)}"
        )
    return candidates[0]


def _is_maximum(column: Sequence[str]) -> bool:
    return len(set(column)) == 1 and _has_number(column[0])


def _is_grade(text: str) -> bool:
    return text.strip() in ("", "-") or _has_number(text)


def _has_number(cell: str) -> bool:
    return NUMBER.fullmatch(cell.strip()) is not None


def render_gradebook(book: Gradebook) -> ExportedFiles:
    """Return a CSV file for the gradebook's import, with the grade and feedback for each result.

    There is no feedback without a grade, because importing such a row would remove the grade.
    """
    title = escape_cell(book.column or book.run)
    rows = [["ID number", "Email address", "Full name", title, f"{title} (feedback)"]]
    for student, results in book.students.items():
        person = book.find_student(results[0])
        identity = map(escape_cell, (student, person.email, person.display_name))
        points = format_number(sum_points(results))
        rows.append([*identity, points, escape_cell(format_feedback(results))])
    return ExportedFiles({"moodle-gradebook.csv": encode_csv(rows)})
