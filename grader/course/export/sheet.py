"""Sheets that gradebooks hand out to be filled in: reading them, and whom a row is about."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader.course.intake.roster import Roster, Student, build_roster, detect_delimiter, read_table


@dataclass(frozen=True, slots=True)
class Sheet:
    """A CSV file that the instructor downloaded, cell by cell."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    delimiter: str = ","


def read_sheet(path: Path) -> Sheet:
    """A sheet as it is. Raises BadRoster for what is no CSV file."""
    header, rows = read_table(path)
    text = path.read_text(encoding="utf-8-sig")
    return Sheet(tuple(header), tuple(map(tuple, rows)), detect_delimiter(text))


def find_student(
    ids: Sequence[str], name: str, known: Roster, handles: Mapping[str, str]
) -> str | None:
    """The id of the student that a row is about: as handed in, else as rosters know.

    A name counts only if it is one student's, and only as a name: somebody who is called 17 gets
    nothing of number 17's.
    """
    for handle in ids:
        if handle and handle in handles:
            return handles[handle]
    found = known.match(*(text for text in ids if text.strip()), name=name)
    return None if found is None else found.id


def build_sheet_roster(students: Iterable[Student]) -> Roster:
    """These students as a roster; who has no name goes by the id, as where files are so called."""
    return build_roster(
        each if each.display_name != each.id else replace(each, name=each.id) for each in students
    )
