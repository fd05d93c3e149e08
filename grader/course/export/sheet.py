"""Read the sheets that gradebooks export for filling in, and find the student of each row."""

import codecs
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headcheck.grader.course.intake.roster import (
    Roster,
    Student,
    build_roster,
    detect_delimiter,
    read_table,
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """A CSV file that the instructor exported, cell by cell."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    delimiter: str = ","
    bom: bool = False
    """whether it begins with a byte-order mark, which tells some spreadsheets that it is UTF-8"""


def read_sheet(path: Path) -> Sheet:
    """Read a sheet. Raises RosterError if it is no CSV file."""
    header, rows = read_table(path)
    text = path.read_text(encoding="utf-8-sig")
    bom = path.read_bytes().startswith(codecs.BOM_UTF8)
    return Sheet(tuple(header), tuple(map(tuple, rows)), detect_delimiter(text), bom)


def find_student(
    ids: Sequence[str], name: str, known: Roster, handles: Mapping[str, str]
) -> str | None:
    """Return the id of a row's student: by the handle of a submission, else by the roster.

    A name counts only if exactly one student has it, and it is never taken for an id: a student
    called 17 does not get the grade of the student whose id is 17.
    """
    for handle in ids:
        if handle and handle in handles:
            return handles[handle]
    match = known.match(*(text for text in ids if text.strip()), name=name)
    return None if match is None else match.id


def build_sheet_roster(students: Iterable[Student]) -> Roster:
    """Build a roster in which a student without a name can be found by the id as a name."""
    return build_roster(
        each if each.display_name != each.id else replace(each, name=each.id) for each in students
    )
