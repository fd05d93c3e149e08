"""Fill in grades in Canvas's gradebook CSV, as exported by the instructor.

Source: https://community.canvaslms.com/docs/DOC-10701 and .../DOC-12813
"""

import re
from collections.abc import Sequence

from headcheck.grader.course.export.gradebook import (
    ExportedFiles,
    Gradebook,
    compare_maxima,
    encode_csv,
    escape_cell,
    format_number,
    list_left_out,
    make_student_finder,
    refuse_above,
)
from headcheck.grader.course.export.sheet import Sheet
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.report.render.sanitise import sanitise_line

IDENTITY = (
    "Student", "ID", "SIS User ID", "SIS Login ID", "Integration ID", "Root Account", "Section",
)  # fmt: skip
POINTS_POSSIBLE = "Points Possible"


def render(book: Gradebook) -> ExportedFiles:
    """Return one CSV file with a column for each exercise.

    Without a sheet, the identity columns are filled in as far as their values are known: Canvas
    finds a student by the ID, which is in the names of downloaded files, or by the SIS User ID.
    """
    return _make_sheet(book) if book.sheet is None else _fill_sheet(book, book.sheet)


def _make_sheet(book: Gradebook) -> ExportedFiles:
    titles = [book.make_column_title(exercise) for exercise in book.exercises]
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *map(escape_cell, titles)]
    possible = [f"    {POINTS_POSSIBLE}", "", "", "", "", *map(format_number, book.maxima.values())]
    rows = [header, possible]
    for student, results in book.students.items():
        person = book.find_student(results[0])
        handle = results[0].handle
        number = next((i for i in (handle, *person.handles, student) if i.isdecimal()), "")
        sis = "" if student == number else student
        sortable = f"{person.last}, {person.first}" if person.first and person.last else ""
        name = sortable or person.display_name
        texts = (name, number, sis, person.login, person.section)
        rows.append([*map(escape_cell, texts), *_list_grades(book, results, [""] * len(titles))])
    return ExportedFiles({"canvas.csv": encode_csv(rows)}, remarks=_name_ungraded(book))


def _fill_sheet(book: Gradebook, sheet: Sheet) -> ExportedFiles:
    """Leave Canvas's identity cells unchanged. Raises ExportError above Canvas's maximum.

    Columns of other assignments are left out, so that importing the file changes none of their
    grades.
    """
    kept = [i for i, name in enumerate(sheet.header) if name in IDENTITY]
    ids = [i for i in kept if sheet.header[i] not in ("Student", "Section", "Root Account")]
    titles = [book.make_column_title(exercise) for exercise in book.exercises]
    columns = [_find_column(title, sheet.header) for title in titles]
    named = [
        escape_cell(title) if column is None else sheet.header[column]
        for title, column in zip(titles, columns, strict=True)
    ]
    find_student = make_student_finder(book)
    possible = list(map(format_number, book.maxima.values()))
    rows = [[sheet.header[i] for i in kept] + named]
    found: list[str | None] = []
    has_points_row = False
    most = [""] * len(columns)
    for row in sheet.rows:
        before = ["" if column is None else row[column] for column in columns]
        if row[0].strip() == POINTS_POSSIBLE:
            has_points_row = True
            most = [cell.strip() for cell in before]
            grades = [old or new for old, new in zip(before, possible, strict=True)]
        else:
            student = find_student([row[i] for i in ids], row[0])
            found.append(student)
            results = book.students.get(student or "", [])
            for each in results:
                if each.exercise in book.exercises:
                    # A bonus may lead above the maximum, which Canvas allows.
                    asked = min(each.score, each.max_score)
                    refuse_above(asked, most[book.exercises.index(each.exercise)], each.student)
            grades = _list_grades(book, results, before)
        rows.append([row[i] for i in kept] + grades)
    if not has_points_row:
        rows.insert(1, [f"    {POINTS_POSSIBLE}", *[""] * (len(kept) - 1), *possible])
    left_out, strangers = list_left_out(book, found)
    new = [title for title, column in zip(titles, columns, strict=True) if column is None]
    remarks = [f"new column, which the sheet did not have: {title}" for title in new]
    for maximum, own in zip(most, book.maxima.values(), strict=True):
        remarks += compare_maxima(maximum, own)
    files = {"canvas.csv": encode_csv(rows, bom=sheet.bom)}
    return ExportedFiles(files, left_out, (*remarks, *strangers, *_name_ungraded(book)))


def _name_ungraded(book: Gradebook) -> tuple[str, ...]:
    """Return a remark that names the students with files that belong to no column."""
    without = [each.student for each in book.results if each.exercise not in book.exercises]
    listed = ", ".join(sanitise_line(student) for student in dict.fromkeys(without))
    return (f"no grade, since no exercise was recognised: {listed}",) if without else ()


def _find_column(title: str, header: Sequence[str]) -> int | None:
    """Return the existing column of an assignment: `title (4711)`."""
    pattern = re.compile(rf"{re.escape(title)}(?: \(\d+\))?")
    return next((i for i, name in enumerate(header) if pattern.fullmatch(name)), None)


def _list_grades(
    book: Gradebook, results: Sequence[ExerciseResult], before: Sequence[str]
) -> list[str]:
    """Return points by exercise; where nothing was handed in, the previous grade remains."""
    old = dict(zip(book.exercises, before, strict=True))
    points = {
        each.exercise: (each.is_absent and old.get(each.exercise)) or format_number(each.score)
        for each in results
    }
    return [points.get(e, old) for e, old in zip(book.exercises, before, strict=True)]
