"""Canvas's gradebook CSV: the export that the instructor downloaded with its grades filled in.

Source: https://community.canvaslms.com/docs/DOC-10701 and .../DOC-12813
"""

import re
from collections.abc import Sequence

from grader.course.export.gradebook import (
    ExportedFiles,
    Gradebook,
    encode_csv,
    escape_cell,
    format_number,
)
from grader.course.export.sheet import Sheet, build_sheet_roster, find_student
from grader.course.results import ExerciseResult

IDENTITY = (
    "Student", "ID", "SIS User ID", "SIS Login ID", "Integration ID", "Root Account", "Section",
)  # fmt: skip
POINTS_POSSIBLE = "Points Possible"


def render(book: Gradebook) -> ExportedFiles:
    """One CSV file, with a column for each exercise.

    Without a sheet the columns before it hold what is known: Canvas finds a student by the ID,
    which is in the names of the files that it hands out, or by the SIS User ID.
    """
    if book.sheet is None:
        return _make_sheet(book)
    return _fill_sheet(book, book.sheet)


def _make_sheet(book: Gradebook) -> ExportedFiles:
    titles = [book.make_column_title(exercise) for exercise in book.exercises]
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *map(escape_cell, titles)]
    possible = [f"    {POINTS_POSSIBLE}", "", "", "", "", *_list_points_possible(book)]
    rows = [header, possible]
    for student, results in book.students.items():
        person = book.find_student(results[0])
        handle = results[0].handle
        number_ = next((i for i in (handle, *person.handles, student) if i.isdecimal()), "")
        sis = "" if student == number_ else student
        who = (_format_sortable_name(person.display_name, person.first, person.last), number_, sis)
        texts = (*who, person.login, person.section)
        rows.append([*map(escape_cell, texts), *_list_grades(book, results, [""] * len(titles))])
    return ExportedFiles({"canvas.csv": encode_csv(rows)})


def _fill_sheet(book: Gradebook, sheet: Sheet) -> ExportedFiles:
    """Identity as it was, cell by cell: it is Canvas's own.

    Grades that are not ours are left out, so that importing changes none of them.
    """
    kept = [i for i, name in enumerate(sheet.header) if name in IDENTITY]
    who = [i for i in kept if sheet.header[i] not in ("Student", "Section", "Root Account")]
    titles = [book.make_column_title(exercise) for exercise in book.exercises]
    places = [_find_column(title, sheet.header) for title in titles]
    named = [
        escape_cell(title) if place is None else sheet.header[place]
        for title, place in zip(titles, places, strict=True)
    ]
    known = build_sheet_roster(book.find_student(each[0]) for each in book.students.values())
    handles = {each.handle: each.student for each in book.results}
    rows = [[sheet.header[i] for i in kept] + named]
    found: set[str] = set()
    points_row = False
    for row in sheet.rows:
        before = ["" if place is None else row[place] for place in places]
        if row[0].strip() == POINTS_POSSIBLE:
            points_row = True
            grades = [
                old or new for old, new in zip(before, _list_points_possible(book), strict=True)
            ]
        else:
            student = find_student([row[i] for i in who], row[0], known, handles)
            found |= {student} if student else set()
            grades = _list_grades(book, book.students.get(student or "", []), before)
        rows.append([row[i] for i in kept] + grades)
    if not points_row:
        rows.insert(
            1, [f"    {POINTS_POSSIBLE}", *[""] * (len(kept) - 1), *_list_points_possible(book)]
        )
    return ExportedFiles(
        {"canvas.csv": encode_csv(rows)}, tuple(sorted(book.students.keys() - found))
    )


def _find_column(title: str, header: Sequence[str]) -> int | None:
    """The column of an assignment that is there: `title (4711)`."""
    for i, name in enumerate(header):
        if re.fullmatch(rf"{re.escape(title)}(?: \(\d+\))?", name):
            return i
    return None


def _list_points_possible(book: Gradebook) -> list[str]:
    best = dict.fromkeys(book.exercises, 0.0)
    for each in book.results:
        best[each.exercise] = max(best[each.exercise], each.max_score)
    return [format_number(best[exercise]) for exercise in book.exercises]


def _list_grades(
    book: Gradebook, results: Sequence[ExerciseResult], before: Sequence[str]
) -> list[str]:
    """Points by exercise; who has none keeps what was there."""
    there = {each.exercise: format_number(each.score) for each in results}
    return [there.get(e, old) for e, old in zip(book.exercises, before, strict=True)]


def _format_sortable_name(shown: str, first: str, last: str) -> str:
    return f"{last}, {first}" if first and last else shown
