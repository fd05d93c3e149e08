"""Canvas's gradebook CSV: the export that the instructor downloaded with its grades filled in.

Source: https://community.canvaslms.com/docs/DOC-10701 and .../DOC-12813
"""

import re
from collections.abc import Sequence

from grader.course.export.gradebook import Exported, Gradebook, cell, csv_of, number
from grader.course.export.sheet import Sheet, roster_for, student_of
from grader.course.results import Standing

IDENTITY = (
    "Student", "ID", "SIS User ID", "SIS Login ID", "Integration ID", "Root Account", "Section",
)  # fmt: skip
POSSIBLE = "Points Possible"


def render(book: Gradebook) -> Exported:
    """One CSV file, with a column for each exercise.

    Without a sheet the columns before it hold what is known: Canvas finds a student by the ID,
    which is in the names of the files that it hands out, or by the SIS User ID.
    """
    if book.sheet is None:
        return _made(book)
    return _filled(book, book.sheet)


def _made(book: Gradebook) -> Exported:
    titles = [book.title(exercise) for exercise in book.exercises]
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *map(cell, titles)]
    possible = [f"    {POSSIBLE}", "", "", "", "", *_possible(book)]
    rows = [header, possible]
    for student, standings in book.students.items():
        person = book.person(standings[0])
        handle = standings[0].handle
        number_ = next((i for i in (handle, *person.handles, student) if i.isdecimal()), "")
        sis = "" if student == number_ else student
        who = (_sorted_name(person.shown, person.first, person.last), number_, sis)
        texts = (*who, person.login, person.section)
        rows.append([*map(cell, texts), *_grades(book, standings, [""] * len(titles))])
    return Exported({"canvas.csv": csv_of(rows)})


def _filled(book: Gradebook, sheet: Sheet) -> Exported:
    """Identity as it was, cell by cell: it is Canvas's own.

    Grades that are not ours are left out, so that importing changes none of them.
    """
    kept = [i for i, name in enumerate(sheet.header) if name in IDENTITY]
    who = [i for i in kept if sheet.header[i] not in ("Student", "Section", "Root Account")]
    titles = [book.title(exercise) for exercise in book.exercises]
    places = [_place(title, sheet.header) for title in titles]
    named = [
        cell(title) if place is None else sheet.header[place]
        for title, place in zip(titles, places, strict=True)
    ]
    known = roster_for(book.person(each[0]) for each in book.students.values())
    handles = {each.handle: each.student for each in book.standings}
    rows = [[sheet.header[i] for i in kept] + named]
    found: set[str] = set()
    points_row = False
    for row in sheet.rows:
        before = ["" if place is None else row[place] for place in places]
        if row[0].strip() == POSSIBLE:
            points_row = True
            grades = [old or new for old, new in zip(before, _possible(book), strict=True)]
        else:
            student = student_of([row[i] for i in who], row[0], known, handles)
            found |= {student} if student else set()
            grades = _grades(book, book.students.get(student or "", []), before)
        rows.append([row[i] for i in kept] + grades)
    if not points_row:
        rows.insert(1, [f"    {POSSIBLE}", *[""] * (len(kept) - 1), *_possible(book)])
    return Exported({"canvas.csv": csv_of(rows)}, tuple(sorted(book.students.keys() - found)))


def _place(title: str, header: Sequence[str]) -> int | None:
    """The column of an assignment that is there: `title (4711)`."""
    for i, name in enumerate(header):
        if re.fullmatch(rf"{re.escape(title)}(?: \(\d+\))?", name):
            return i
    return None


def _possible(book: Gradebook) -> list[str]:
    best = dict.fromkeys(book.exercises, 0.0)
    for each in book.standings:
        best[each.exercise] = max(best[each.exercise], each.max_score)
    return [number(best[exercise]) for exercise in book.exercises]


def _grades(book: Gradebook, standings: Sequence[Standing], before: Sequence[str]) -> list[str]:
    """Points by exercise; who has none keeps what was there."""
    there = {each.exercise: number(each.score) for each in standings}
    return [there.get(e, old) for e, old in zip(book.exercises, before, strict=True)]


def _sorted_name(shown: str, first: str, last: str) -> str:
    return f"{last}, {first}" if first and last else shown
