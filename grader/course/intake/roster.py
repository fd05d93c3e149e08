"""Read the students and groups of a course from CSV files in the format of any common system.

Every system has its own number for a student. A roster holds them all, so that a submission from
one system can be graded under the id of another. For groups, Canvas has `group_name`, GitHub
Classroom's grades of a group assignment as well, and Moodle's participants have `Groups`.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headcheck.grader.course import CourseError

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": (
        "student_id", "sis user id", "sid", "student id", "id number", "identifier", "id",
        "user_id", "roster_identifier",
    ),
    "name": ("name", "student", "full name", "student name"),
    "first": ("first name", "first_name", "firstname", "given name"),
    "last": ("last name", "last_name", "lastname", "surname", "family name"),
    "email": ("email", "email address", "e-mail", "mail"),
    "login": (
        "sis login id", "login", "username", "github_username", "user name", "uid", "login_id",
    ),
    "section": ("section", "sections", "group", "groups", "section name"),
}  # fmt: skip
"""Headers of Canvas, Moodle, Gradescope, nbgrader and GitHub Classroom for each field, the
more specific first. Case and underscores do not matter."""
HANDLE_COLUMNS = (
    "github_username", "github_id", "lms_user_id", "canvas id", "integration id", "canvas_user_id",
)  # fmt: skip
"""headers of further ids under which a student may submit"""

MAX_CHARACTERS = 1 << 26
"""far more than a class of thousands with feedback needs; a device has no end"""
PARTICIPANT = re.compile(r"(?P<word>.*[^\d\s])\s?(?P<number>[0-9]+)")
"""a participant's number in Moodle's worksheet, after a word in the instructor's language"""
GROUP_COLUMNS = ("group_name", "group", "groups", "team", "team_name", "group_id")
"""headers of the column with the group's name, the more specific first"""
SEVERAL = ("groups",)
"""headers of columns that may list several groups, with commas in between"""


class RosterError(CourseError):
    """A roster cannot be used; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Student:
    """A student; unknown fields are empty."""

    id: str
    name: str = ""
    first: str = ""
    last: str = ""
    email: str = ""
    login: str = ""
    section: str = ""
    handles: tuple[str, ...] = ()
    """the student's ids in other systems"""

    @property
    def display_name(self) -> str:
        """The full name if known, else the id."""
        return self.name or " ".join(part for part in (self.first, self.last) if part) or self.id

    @property
    def ids(self) -> tuple[str, ...]:
        """Everything that identifies the student, which a name does not."""
        return (self.id, self.email, self.login, *self.handles)


@dataclass(frozen=True)
class Roster:
    """The students of a course, with indices by id and by name."""

    students: tuple[Student, ...] = ()
    _by_id: Mapping[str, tuple[Student, ...]] = field(default_factory=dict, repr=False)
    _by_name: Mapping[str, tuple[Student, ...]] = field(default_factory=dict, repr=False)

    def match(self, *ids: str, name: str = "") -> Student | None:
        """Return the student with one of these ids or addresses, else with this name.

        Returns None if there is no such student, or if an id or name is ambiguous. Names are never
        compared with ids, since people choose their names themselves.
        """
        return next(iter(self.find_all(*ids, name=name)), None)

    def find_all(self, *ids: str, name: str = "") -> tuple[Student, ...]:
        """Return all students with these ids or this name; more than one is a contradiction."""
        matches = [self._by_id.get(normalise_id(each), ()) for each in ids]
        matches.append(self._by_name.get(normalise_name(name), ()))
        return tuple(dict.fromkeys(each[0] for each in matches if len(each) == 1))

    def __bool__(self) -> bool:
        return bool(self.students)


def build_roster(students: Iterable[Student]) -> Roster:
    """Build a roster of these students."""
    listed = tuple(students)
    by_id: dict[str, dict[Student, None]] = {}
    by_name: dict[str, dict[Student, None]] = {}
    for student in listed:
        for id_ in student.ids:
            by_id.setdefault(normalise_id(id_), {})[student] = None
        first, last = student.first, student.last
        for name in (student.name, f"{last} {first}", f"{first} {last}"):
            by_name.setdefault(normalise_name(name), {})[student] = None
    by_id.pop("", None)
    by_name.pop("", None)
    return Roster(
        listed,
        {key: tuple(same) for key, same in by_id.items()},
        {key: tuple(same) for key, same in by_name.items()},
    )


def normalise_id(text: str) -> str:
    """Return the normal form of an id's spellings; `ada-l` and `adal` remain two people."""
    return unicodedata.normalize("NFC", text.strip().casefold())


def normalise_name(text: str) -> str:
    """Return the normal form of a name's spellings: letters and digits without accents.

    Canvas names files `lovelaceada` after "Lovelace, Ada", and some systems drop accents.
    """
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in plain if c.isalnum() or c in "@.")


def read_roster(path: Path) -> Roster:
    """Read a roster from a CSV file. Raises RosterError."""
    header, rows = read_table(path)
    columns = find_columns(header)
    worksheet = _is_worksheet(rows)
    if worksheet:
        columns["id"] = 0
    require_id(path, header, columns)
    students: dict[str, Student] = {}
    for number, row in enumerate(rows, start=2):
        student = parse_student(header, columns, row)
        if student is None:
            continue
        if worksheet and (participant := PARTICIPANT.fullmatch(row[0].strip())):
            student = replace(student, handles=(*student.handles, participant["number"]))
        if student.id in students:
            raise RosterError(f"{path}: line {number}: {student.id!r} is there twice")
        students[student.id] = student
    if not students:
        raise RosterError(f"{path}: lists no students below its headers")
    return build_roster(students.values())


def require_id(path: Path, header: Sequence[str], columns: Mapping[str, int]) -> None:
    """Raise RosterError if no column identifies students."""
    known = ("id", "email", "login")
    handles = set(map(normalise_header, HANDLE_COLUMNS))
    if columns.keys().isdisjoint(known) and handles.isdisjoint(map(normalise_header, header)):
        raise RosterError(
            f"{path}: no column for an id; its headers are {', '.join(header)}. "
            "Name one of them student_id, email or login"
        )


def read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the header of a CSV file and its rows, padded to its width. Raises RosterError."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(MAX_CHARACTERS + 1)
    except OSError as error:
        raise RosterError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RosterError(f"{path}: is not UTF-8; save it as CSV UTF-8") from None
    except ValueError:
        raise RosterError(f"{str(path)!r} is no name of a file") from None
    if len(text) > MAX_CHARACTERS:
        raise RosterError(f"{path}: is larger than {MAX_CHARACTERS >> 20} MiB")
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=detect_delimiter(text)))
    except csv.Error as error:
        raise RosterError(f"{path}: is not CSV: {error}") from None
    lines = [line for line in lines if any(cell.strip() for cell in line)]
    if not lines:
        raise RosterError(f"{path}: is empty")
    header = [cell.strip() for cell in lines[0]]
    if len(header) < 2 and len(lines) > 1 and any(len(line) > 1 for line in lines):
        raise RosterError(f"{path}: its first line is not a header: {', '.join(header)}")
    rows = [line[: len(header)] + [""] * (len(header) - len(line)) for line in lines[1:]]
    return header, rows


def detect_delimiter(text: str) -> str:
    """Return the delimiter in the first line, since in some countries spreadsheets write `;`."""
    first = text.partition("\n")[0]
    return max(",;\t", key=first.count)


def find_columns(header: Sequence[str]) -> dict[str, int]:
    """Return the index of each field's column, for the fields of `COLUMNS`."""
    indices = {normalise_header(cell): i for i, cell in reversed(list(enumerate(header)))}
    columns: dict[str, int] = {}
    for field_, names in COLUMNS.items():
        if known := [name for name in map(normalise_header, names) if name in indices]:
            columns[field_] = indices[known[0]]
    return columns


def _is_worksheet(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a table is Moodle's offline grading worksheet, in any language.

    Its first column has the same word before every number, and another column the same maximum
    grade in every row.
    """
    participants = [PARTICIPANT.fullmatch(row[0].strip()) for row in rows]
    words = {each["word"] if each else "" for each in participants}
    return len(words) == 1 and "" not in words and any(map(_is_maximum, zip(*rows, strict=True)))


def _is_maximum(column: Sequence[str]) -> bool:
    return (
        len(set(column)) == 1 and re.fullmatch(r"[0-9]+[.,][0-9]+", column[0].strip()) is not None
    )


def normalise_header(header: str) -> str:
    """Return the normal form of a header's spellings: `group_name` is `group name`."""
    return re.sub(r"[\s_]+", " ", header.strip().casefold())


def parse_student(
    header: Sequence[str], columns: Mapping[str, int], row: Sequence[str]
) -> Student | None:
    """Return the student of a row; None in Canvas's rows of points and of its test student."""
    cells = {key: row[i].strip() for key, i in columns.items()}
    name = cells.get("name", "")
    if name in ("Points Possible", "Student, Test", "Test Student") or not any(cells.values()):
        return None
    column = {normalise_header(cell): row[i].strip() for i, cell in enumerate(header)}
    ids = [column.get(normalise_header(each), "") for each in (*COLUMNS["id"], *HANDLE_COLUMNS)]
    ids.insert(0, cells.get("id", ""))
    known = [each for each in (*ids, cells.get("email"), cells.get("login")) if each]
    if not known:
        return None
    last, comma, first = map(str.strip, name.partition(","))
    return Student(
        id=known[0],
        name=f"{first} {last}" if comma else name,
        first=cells.get("first") or first,
        last=cells.get("last") or (last if comma else ""),
        email=cells.get("email", ""),
        login=cells.get("login", ""),
        section=cells.get("section", ""),
        handles=tuple(dict.fromkeys(each for each in ids if each and each != known[0])),
    )


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
        cell = row[index[title]]
        names = cell.split(",") if title in SEVERAL else [cell]
        for name in filter(None, map(str.strip, names)):
            groups.setdefault(name, []).extend([] if student is None else [student])
    return {name: tuple(students) for name, students in groups.items()}
