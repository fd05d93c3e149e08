"""Who is in a course: a CSV file, as any of the common systems exports it.

Every system has its own number for a student. A roster knows them all, so that a hand-in from
one system can be graded under the id of another.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.course import CourseError

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": (
        "student_id", "sis user id", "sid", "student id", "id number", "identifier", "id",
    ),
    "name": ("name", "student", "full name", "student name"),
    "first": ("first name", "first_name", "firstname", "given name"),
    "last": ("last name", "last_name", "lastname", "surname", "family name"),
    "email": ("email", "email address", "e-mail", "mail"),
    "login": ("sis login id", "login", "username", "github_username", "user name", "uid"),
    "section": ("section", "sections", "group", "groups", "section name"),
}  # fmt: skip
"""Headers by what they say, the more telling first: Canvas, Moodle, Gradescope, nbgrader, GitHub
Classroom. Case and underscores do not matter."""
HANDLE_COLUMNS = ("github_username", "github_id", "lms_user_id", "canvas id", "integration id")
"""headers of further ids, under which somebody may hand in"""


class RosterError(CourseError):
    """A roster that cannot be used; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Student:
    """One person, as far as known; what is not known is empty."""

    id: str
    name: str = ""
    first: str = ""
    last: str = ""
    email: str = ""
    login: str = ""
    section: str = ""
    handles: tuple[str, ...] = ()
    """all ids that other systems have for them"""

    @property
    def display_name(self) -> str:
        """The name to write: first and last name, or whatever there is."""
        return self.name or " ".join(part for part in (self.first, self.last) if part) or self.id


@dataclass(frozen=True)
class Roster:
    """The students of a course, and who is meant by an id or a name."""

    students: tuple[Student, ...] = ()
    _by_id: Mapping[str, tuple[Student, ...]] = field(default_factory=dict, repr=False)
    _by_name: Mapping[str, tuple[Student, ...]] = field(default_factory=dict, repr=False)

    def match(self, *ids: str, name: str = "") -> Student | None:
        """The one student with one of these ids or addresses, else with this name.

        None if there is no such student or more than one: nobody is graded by guessing. A name
        is never compared with ids: people choose their names themselves.
        """
        return next(iter(self.find_all(*ids, name=name)), None)

    def find_all(self, *ids: str, name: str = "") -> tuple[Student, ...]:
        """All whom these ids and this name stand for; more than one is a contradiction."""
        found = [self._by_id.get(normalise_id(each), ()) for each in ids]
        found.append(self._by_name.get(normalise_name(name), ()))
        return tuple(dict.fromkeys(each[0] for each in found if len(each) == 1))

    def __bool__(self) -> bool:
        return bool(self.students)


def build_roster(students: Iterable[Student]) -> Roster:
    """A roster of these students."""
    listed = tuple(students)
    by_id: dict[str, dict[Student, None]] = {}
    by_name: dict[str, dict[Student, None]] = {}
    for student in listed:
        for id_ in (student.id, student.email, student.login, *student.handles):
            by_id.setdefault(normalise_id(id_), {})[student] = None
        reversed_name = f"{student.last} {student.first}"
        for name in (student.name, reversed_name, f"{student.first} {student.last}"):
            by_name.setdefault(normalise_name(name), {})[student] = None
    by_id.pop("", None)
    by_name.pop("", None)
    return Roster(
        listed,
        {key: tuple(found) for key, found in by_id.items()},
        {key: tuple(found) for key, found in by_name.items()},
    )


def normalise_id(text: str) -> str:
    """What two ways of writing the same id have in common; `ada-l` and `adal` are two people."""
    return unicodedata.normalize("NFC", text.strip().casefold())


def normalise_name(text: str) -> str:
    """What two ways of writing the same name have in common: letters and digits.

    Canvas names files `lovelaceada` after "Lovelace, Ada"; accents are lost on some ways.
    """
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in plain if c.isalnum() or c in "@.")


def read_roster(path: Path) -> Roster:
    """The roster in a CSV file. Raises BadRoster."""
    header, rows = read_table(path)
    columns = _find_columns(header)
    if "id" not in columns and "email" not in columns and "login" not in columns:
        raise RosterError(
            f"{path}: no column for an id; its headers are {', '.join(header)}. "
            "Name one of them student_id, email or login"
        )
    students: dict[str, Student] = {}
    for number, row in enumerate(rows, start=2):
        student = _parse_student(header, columns, row)
        if student is None:
            continue
        if student.id in students:
            raise RosterError(f"{path}: line {number}: {student.id!r} is there twice")
        students[student.id] = student
    if not students:
        raise RosterError(f"{path}: lists no students below its headers")
    return build_roster(students.values())


def read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """The header of a CSV file and its rows, all of the header's width. Raises BadRoster."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise RosterError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RosterError(f"{path}: is not UTF-8; save it as CSV UTF-8") from None
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=detect_delimiter(text)))
    except csv.Error as error:
        raise RosterError(f"{path}: is not CSV: {error}") from None
    lines = [line for line in lines if any(cell.strip() for cell in line)]
    if not lines:
        raise RosterError(f"{path}: is empty")
    header = [cell.strip() for cell in lines[0]]
    if len(header) < 2 and len(lines) > 1 and any(len(line) > 1 for line in lines):
        raise RosterError(f"{path}: its first line is no header: {', '.join(header)}")
    rows = [line[: len(header)] + [""] * (len(header) - len(line)) for line in lines[1:]]
    return header, rows


def detect_delimiter(text: str) -> str:
    """What separates the cells of the first line: spreadsheets of some countries write `;`."""
    first = text.partition("\n")[0]
    return max(",;\t", key=first.count)


def _find_columns(header: Sequence[str]) -> dict[str, int]:
    """Which column says what."""
    there = {_normalise_header(cell): i for i, cell in reversed(list(enumerate(header)))}
    found: dict[str, int] = {}
    for what, names in COLUMNS.items():
        for name in names:
            if _normalise_header(name) in there:
                found[what] = there[_normalise_header(name)]
                break
    return found


def _normalise_header(header: str) -> str:
    return re.sub(r"[\s_]+", " ", header.strip().casefold())


def _parse_student(
    header: Sequence[str], columns: Mapping[str, int], row: Sequence[str]
) -> Student | None:
    """Who a row is about; nobody in Canvas's rows of points and of its test student."""
    said = {what: row[i].strip() for what, i in columns.items()}
    name = said.get("name", "")
    if name in ("Points Possible", "Student, Test", "Test Student") or not any(said.values()):
        return None
    column = {_normalise_header(cell): row[i].strip() for i, cell in enumerate(header)}
    ids = [column.get(_normalise_header(each), "") for each in (*COLUMNS["id"], *HANDLE_COLUMNS)]
    known = [each for each in (*ids, said.get("email"), said.get("login")) if each]
    id_ = known[0] if known else ""
    if not id_:
        return None
    last, comma, first = name.partition(",")
    return Student(
        id=id_,
        name=f"{first.strip()} {last.strip()}" if comma else name,
        first=said.get("first") or (first.strip() if comma else ""),
        last=said.get("last") or (last.strip() if comma else ""),
        email=said.get("email", ""),
        login=said.get("login", ""),
        section=said.get("section", ""),
        handles=tuple(dict.fromkeys(each for each in ids if each and each != id_)),
    )
