"""Read the groups of a course from a CSV file in the format of any common course system.

Canvas's groups have `group_name`, GitHub Classroom's grades of a group assignment as well, and
Moodle's participants have `Groups`. The columns for ids are those of a roster.
"""

from collections.abc import Sequence
from pathlib import Path

from headcheck.grader.course.intake.roster import (
    RosterError,
    Student,
    find_columns,
    normalise_header,
    parse_student,
    read_table,
    require_id,
)

GROUP_COLUMNS = ("group_name", "group", "groups", "team", "team_name", "group_id")
"""headers of the column with the group's name, the more specific first"""
SEVERAL = ("groups",)
"""headers of columns that may list several groups, with commas in between"""


def read_groups(path: Path) -> dict[str, tuple[Student, ...]]:
    """Return the students of each group; who is in no group is left out. Raises RosterError."""
    header, rows = read_table(path)
    columns = find_columns(header)
    require_id(path, header, columns)
    index = {normalise_header(cell): i for i, cell in reversed(list(enumerate(header)))}
    title = next((each for each in map(normalise_header, GROUP_COLUMNS) if each in index), None)
    if title is None:
        raise RosterError(
            f"{path}: no column for the group; its headers are {', '.join(header)}. "
            "Name one of them group_name"
        )
    groups: dict[str, list[Student]] = {}
    for row in rows:
        student = parse_student(header, columns, row)
        for name in _list_groups(row[index[title]], title in SEVERAL):
            groups.setdefault(name, []).extend([] if student is None else [student])
    return {name: tuple(students) for name, students in groups.items()}


def _list_groups(cell: str, several: bool) -> Sequence[str]:
    names = cell.split(",") if several else [cell]
    return [name.strip() for name in names if name.strip()]
