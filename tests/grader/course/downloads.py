"""Downloads of every system as Hypothesis draws them, with whatever a student could have packed.

A download is drawn twice over: as it is, and as its twin, in which every submission is one harmless
file. Each readable file says on its first line who wrote it and for which hand-in, so a test can
see where it ended up.
"""

import io
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import strategies as st

from headcheck.grader.course.intake.roster import Roster, Student, build_roster

File = tuple[str, bytes]

NAMES = ("Ada Lovelace", "Alan", "Émilie du Châtelet", "Eve Passwd")
LATER = "2031-01-01 00:00:00"
SIMPLE_NAME = "work.py"


@dataclass(frozen=True)
class GeneratedHandIn:
    """One hand-in of one student."""

    student: int
    number: int
    """counts the hand-ins of a download, in the order of time"""
    container: str
    """`file`, `folder` or `zip`"""
    filename: str
    """what the student called a file or an archive"""
    files: tuple[File, ...]
    late: bool = False

    @property
    def simplified(self) -> "GeneratedHandIn":
        """The same hand-in, of one file that says nothing."""
        return replace(self, filename=SIMPLE_NAME, files=((SIMPLE_NAME, self.code),))

    @property
    def code(self) -> bytes:
        return f"# {self.student} {self.number}\n".encode()

    @property
    def member(self) -> File:
        """What is handed in where a system takes one file at a time."""
        if self.container == "zip":
            return f"{Path(self.filename).stem}.zip", make_zip(self.files)
        return self.filename, self.code

    def list_files_below(self, folder: str) -> list[File]:
        """What is handed in where a system makes a folder of it."""
        if self.container == "folder":
            return [(f"{folder}/{name}", data) for name, data in self.files]
        name, data = self.member
        return [(f"{folder}/{name}", data)]


def make_zip(files: Iterable[File]) -> bytes:
    """A zip archive of these, names as they are."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore", UserWarning)  # a name that is there twice
        for name, data in files:
            archive.writestr(name, data)
    return buffer.getvalue()


def write_files(files: Iterable[File], path: Path) -> Path:
    """The same as a folder."""
    for name, data in files:
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return path


# ------------------------------------------------------------------------ as systems write them


@dataclass(frozen=True)
class System:
    """How one system lays out what was handed in, and what it calls people."""

    layout: str
    handle: Callable[[int], str]
    lay_out: Callable[[Sequence[GeneratedHandIn]], list[File]]
    containers: tuple[str, ...]
    known: bool = True
    """whether its layout is recognised"""

    @property
    def people(self) -> Roster:
        """Everybody, under ids of the course's own."""
        named = enumerate(NAMES)
        return build_roster(Student(f"s{i}", n, handles=(self.handle(i),)) for i, n in named)


def _canvas(sent: Sequence[GeneratedHandIn]) -> list[File]:
    found = []
    for each in sent:
        name = "".join(filter(str.isalnum, NAMES[each.student].lower()))
        called, data = each.member
        late = "LATE_" if each.late else ""
        found.append((f"{name}_{late}{17 + each.student}_{4000 + each.number}_{called}", data))
    return found


def _moodle(sent: Sequence[GeneratedHandIn], *, folders: bool) -> list[File]:
    found = []
    for each in sent:
        mark = f"{NAMES[each.student]}_{101 + each.student}_assignsubmission_file_"
        if folders:
            found += each.list_files_below(mark)
        else:
            called, data = each.member
            found.append((f"{mark}{called}", data))
    return found


def make_gradescope_metadata(sent: Iterable[tuple[int, int, str]]) -> bytes:
    """Gradescope's, of folder, student and time."""
    lines = ["---"]
    for number, student, time in sent:
        lines += [f"submission_{number}:", "  :submitters:", f"  - :name: {NAMES[student]}"]
        lines += [f"    :sid: '{30 + student:04d}'", f"    :email: {student}@example.org"]
        lines += [f"  :created_at: {time} Z"]
    return "\n".join([*lines, ""]).encode()


def _gradescope(sent: Sequence[GeneratedHandIn]) -> list[File]:
    times = [(s.number, s.student, f"2026-02-01 10:00:{s.number:02d}") for s in sent]
    found = [("submission_metadata.yml", make_gradescope_metadata(times))]
    for each in sent:
        found += each.list_files_below(f"submission_{each.number}")
    return found


def _nbgrader(sent: Sequence[GeneratedHandIn], *, top: str) -> list[File]:
    found = []
    for each in sent:
        home = f"{top}student{each.student}/ps1"
        found += [f for f in each.list_files_below(home) if f[0] != f"{home}/timestamp.txt"]
        found.append((f"{home}/timestamp.txt", f"2026-02-01 10:00:{each.number:02d} UTC".encode()))
    return found


def _github(sent: Sequence[GeneratedHandIn]) -> list[File]:
    top = "hw-submissions/hw-user"
    return [f for each in sent for f in each.list_files_below(f"{top}{each.student}")]


def _plain(sent: Sequence[GeneratedHandIn]) -> list[File]:
    found = []
    for each in sent:
        if each.container == "folder":
            found += each.list_files_below(f"student{each.student}")
        else:
            name, data = each.member
            found.append((f"student{each.student}{Path(name).suffix}", data))
    return found


ALL, FLAT = ("file", "folder", "zip"), ("file", "zip")
SYSTEMS: Mapping[str, System] = {
    "canvas": System("canvas", lambda i: str(17 + i), _canvas, FLAT),
    "moodle in folders": System(
        "moodle", lambda i: str(101 + i), lambda sent: _moodle(sent, folders=True), ALL
    ),
    "moodle in one folder": System(
        "moodle", lambda i: str(101 + i), lambda sent: _moodle(sent, folders=False), FLAT
    ),
    "gradescope": System("gradescope", lambda i: f"{30 + i:04d}", _gradescope, ALL),
    "nbgrader": System(
        "nbgrader", lambda i: f"student{i}", lambda sent: _nbgrader(sent, top="submitted/"), ALL
    ),
    "nbgrader without submitted": System(
        "nbgrader", lambda i: f"student{i}", lambda sent: _nbgrader(sent, top=""), ALL, known=False
    ),
    "github": System("github", lambda i: f"user{i}", _github, ALL),
    "plain": System("plain", lambda i: f"student{i}", _plain, ALL),
}


# ------------------------------------------------------------------------ as students pack them

_STUDENTS = st.integers(0, len(NAMES) - 1)
_FOLDERS = st.one_of(
    st.sampled_from(("x", "submitted", "ps1", "hw-submissions", "assignment_9_export", "Source")),
    _STUDENTS.map("student{}".format),
    _STUDENTS.map("Student{}".format),
    _STUDENTS.map("hw-user{}".format),
    st.integers(0, 5).map("submission_{}".format),
    _STUDENTS.map(lambda i: f"{NAMES[i]}_{101 + i}_assignsubmission_file_"),
    _STUDENTS.map(lambda i: f"lovelaceada_LATE_{17 + i}_4000_work"),
)
_FILES = st.one_of(
    st.just("submission_metadata.yml"),
    st.just("timestamp.txt"),
    st.sampled_from(("work.py", "deeper.zip")),
    _STUDENTS.map("student{}.py".format),
    _STUDENTS.map(lambda i: f"{NAMES[i]}_{101 + i}_assignsubmission_file_zz.py"),
    _STUDENTS.map(lambda i: f"lovelaceada_{17 + i}_4000_work-1.py"),
    _STUDENTS.map(lambda i: f"LATE_{17 + i}_4000_a\nb.py"),
    _STUDENTS.map(lambda i: f"{17 + i}_4000_.PY"),
    _STUDENTS.map(lambda i: f"x_{30 + i:04d}_assignsubmission_file"),
)
_OUT = st.sampled_from(("", "", "", "/", "//", "../", "../../", "..\\..\\", "C:\\", "./"))
_CALLED = st.one_of(_FILES, st.text(st.characters(exclude_characters="/\\\0", codec="utf-8")))


@st.composite
def _paths(draw: st.DrawFn, *, wild: bool) -> str:
    """Where somebody might put a file, to be taken for somebody else's."""
    out = draw(_OUT) if wild else ""
    slash = draw(st.sampled_from(("/", "\\"))) if wild else "/"
    folders = draw(st.lists(_FOLDERS, max_size=5))
    return out + slash.join([*folders, draw(_FILES)])


def _make_content(path: str, code: bytes) -> bytes:
    """What lies there: metadata that names everybody, a deeper archive, or code."""
    if path.endswith("submission_metadata.yml"):
        return make_gradescope_metadata((n, n % len(NAMES), LATER) for n in range(6))
    if path.endswith("timestamp.txt"):
        return f"{LATER} UTC".encode()
    if path.endswith(".zip"):
        forged = ("submission_metadata.yml", b"submission_0:\n")
        return make_zip([("student0/work.py", code), forged])
    return code


@st.composite
def hand_ins(draw: st.DrawFn, system: System, student: int, number: int) -> GeneratedHandIn:
    """A hand-in that holds a file of the student's, and anything else beside it."""
    container = draw(st.sampled_from(system.containers))
    called = (draw(_CALLED)[:40] or "x") + ".py"
    made = GeneratedHandIn(student, number, container, called, (), late=draw(st.booleans()))
    paths = draw(st.lists(_paths(wild=container == "zip"), max_size=6))
    if container == "folder":
        paths = _drop_conflicts(paths)
    own = (SIMPLE_NAME, made.code)
    files = (own, *((p, _make_content(p, made.code)) for p in paths if p != SIMPLE_NAME))
    return replace(made, files=files)


def _drop_conflicts(paths: Iterable[str]) -> list[str]:
    """Those that a file system takes beside each other: no file is also a folder."""
    kept: list[str] = []
    for path in dict.fromkeys(paths):
        if not any(p.startswith(f"{path}/") or path.startswith(f"{p}/") for p in kept):
            kept.append(path)
    return kept


@st.composite
def downloads(draw: st.DrawFn, system: System) -> list[list[GeneratedHandIn]]:
    """What a class handed in, one download or two; Gradescope may list a student twice in one."""
    found: list[list[GeneratedHandIn]] = []
    for first in range(0, 10 * draw(st.integers(1, 2)), 10):
        students = draw(st.lists(_STUDENTS, min_size=1, max_size=4, unique=True))
        if system.layout == "gradescope":
            students += draw(st.lists(st.sampled_from(students), max_size=2))
        numbered = enumerate(students, start=first)
        found.append([draw(hand_ins(system, who, n)) for n, who in numbered])
    return found
