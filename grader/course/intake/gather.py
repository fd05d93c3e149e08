"""From what a course downloaded to frozen records: who handed in which file, when, how often.

Nothing is run and hardly anything is read here. A download is listed (`unpack`), its system
recognised (`recognition`), its names are understood (`layouts`), people are looked up
(`identity`); only then students' archives are taken apart, as what they are known to belong to. A
file that cannot be taken is a record with a problem, so that one bad archive stops nobody else's
grading.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePosixPath

from grader.course.intake import scratch
from grader.course.intake.identity import identified
from grader.course.intake.layout_detection import recognised
from grader.course.intake.layouts import LAYOUTS, TIMESTAMP, Claimed, handed_in, rooted, speaks_of
from grader.course.intake.roster import Roster, Student
from grader.course.intake.unpack import ARCHIVE, Caps, Item, Unpacker
from grader.reading.submission import KINDS, NotFound, Submission, shown
from grader.report.render.sanitise import one_line


@dataclass(frozen=True, slots=True)
class HandIn:
    """One file that somebody handed in; `problem` says why it cannot be read, if so."""

    student: Student
    handle: str
    """the student's id in the system that it comes from"""
    file: str
    """what it was called there, for people"""
    attempt: int
    late: bool
    submitted: datetime | None
    submission: Submission | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Intake:
    """Everything that was handed in, and how it was understood."""

    hand_ins: tuple[HandIn, ...]
    layouts: tuple[str, ...]
    """the system that each path comes from"""
    strangers: tuple[str, ...]
    """ids of those who are not on the roster, if there is one"""
    unclaimed: tuple[str, ...] = ()
    """files whose names do not say whose they are, in the layout of their path"""
    doubts: tuple[str, ...] = ()
    """what contradicts whose a file is taken to be; nothing was replaced for it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How to understand what was handed in."""

    roster: Roster = field(default_factory=Roster)
    layout: str = "auto"
    assignment: str = ""
    """nbgrader's and GitHub Classroom's name of it, where folders do not say it"""
    attempts: str = "latest"
    """`latest` keeps only the last attempt of everybody, `best` all of them"""
    due: datetime | None = None
    """what was handed in after it is late, where the time is known"""
    caps: Caps = field(default_factory=Caps)


@dataclass(frozen=True, slots=True)
class _Download:
    """What one path holds."""

    hand_ins: tuple[HandIn, ...]
    layout: str
    unclaimed: tuple[str, ...]
    doubts: tuple[str, ...]


@contextmanager
def gathered(paths: Sequence[str], wanted: Wanted) -> Iterator[Intake]:
    """What the paths hold; what was unpacked is there until the context is left.

    Raises NotFound for a path that does not exist, or when there is nothing handed in, and
    Undecided where it is not clear which system a path comes from.
    """
    with scratch.folder() as folder:
        unpacker = Unpacker(folder, wanted.caps)
        downloads = [_download(Path(p), n, unpacker, wanted) for n, p in enumerate(paths)]
        found = [each for download in downloads for each in download.hand_ins]
        if not found:
            raise NotFound(f"{', '.join(paths)}: no submissions; {_nothing(downloads)}")
        kept = _counted(_once(found))
        if wanted.attempts == "latest":
            kept = latest(kept)
        listed = frozenset(wanted.roster.students)
        strangers = [h.student.id for h in kept if listed and h.student not in listed]
        yield Intake(
            tuple(kept),
            tuple(each.layout for each in downloads),
            tuple(dict.fromkeys(strangers)),
            tuple(text for each in downloads for text in each.unclaimed),
            tuple(dict.fromkeys(text for each in downloads for text in each.doubts)),
        )


def latest(hand_ins: Iterable[HandIn]) -> list[HandIn]:
    """Of everybody the files of the last attempt."""
    listed = list(hand_ins)
    last = {h.student.id: 0 for h in listed}
    for each in listed:
        last[each.student.id] = max(last[each.student.id], each.attempt)
    return [each for each in listed if each.attempt == last[each.student.id]]


def _download(path: Path, order: int, unpacker: Unpacker, wanted: Wanted) -> _Download:
    """What one path holds. Raises NotFound and Undecided."""
    if not path.exists():
        raise NotFound(f"{path}: no such file or folder")
    if not path.is_dir() and path.suffix.lower() not in (*KINDS, ARCHIVE):
        raise NotFound(f"{path}: what is handed in is a folder, a .zip, a .ipynb or a .py file")
    auto = wanted.layout == "auto"
    layout = recognised(path, wanted.assignment) if auto else wanted.layout
    items = rooted(list(unpacker.items(path)), path, layout)
    outside = list(LAYOUTS[layout](items, wanted.assignment))
    people = identified((each.who for each in outside), wanted.roster)
    claimed = list(_opened(outside, unpacker))
    known = {each.item.path for each in outside}
    return _Download(
        tuple(
            _hand_in(each, people.students[each.who], order, wanted)
            for each in claimed
            if handed_in(each.item)
        ),
        layout,
        tuple(shown(Path(i.path)) for i in items if handed_in(i) and i.path not in known),
        (*people.doubts, *_disbelieved(claimed, wanted), *_untimed(layout, claimed)),
    )


def _nothing(downloads: Sequence[_Download]) -> str:
    """Why nothing was handed in."""
    for each in downloads:
        for name in each.unclaimed[:1]:
            return f"{one_line(name)} is not as --layout {each.layout} has it; say another one"
    return "they are .ipynb and .py files"


def _opened(claimed: Iterable[Claimed], unpacker: Unpacker) -> Iterator[Claimed]:
    """The same with what is in archives instead of these: whose that is, is known by now."""
    contents: dict[Item, list[Item]] = {}  # a group's archive is claimed by every member
    for each in claimed:
        if each.item not in contents:
            contents[each.item] = list(unpacker.opened(each.item))
        for item in contents[each.item]:
            inside = item.path.parts[len(each.item.path.parts) :]
            yield replace(each, item=item, own=each.own / PurePosixPath(*inside))


def _disbelieved(claimed: Iterable[Claimed], wanted: Wanted) -> Iterator[str]:
    """What in somebody's submission says that somebody else handed it in."""
    listed = list(claimed)
    handles = {each.who.handle for each in listed}
    for each in listed:
        me = each.who.handle

        def known(handle: str, me: str = me) -> bool:
            return handle != me and (handle in handles or bool(wanted.roster.match(handle)))

        if speaks_of(each.own, known):
            yield f"{shown(Path(each.item.path))} is {me}'s, whatever it says"


def _untimed(layout: str, claimed: Iterable[Claimed]) -> Iterator[str]:
    """Files as nbgrader puts them, where students may have put them, too."""
    for each in claimed:
        if layout == "plain" and each.own.name == TIMESTAMP and len(each.own.parts) == 2:
            yield f"{shown(Path(each.item.path))} says no time without --layout nbgrader"


def _hand_in(claimed: Claimed, student: Student, order: int, wanted: Wanted) -> HandIn:
    """The record; its attempt is a number for sorting until all are known."""
    called = shown(Path(claimed.item.path))
    file = claimed.item.file
    after_due = bool(wanted.due and claimed.submitted and claimed.submitted > wanted.due)
    return HandIn(
        student=student,
        handle=claimed.who.handle,
        file=called,
        attempt=order * 10_000 + claimed.order,
        late=claimed.late or after_due,
        submitted=claimed.submitted,
        submission=None if file is None else Submission(file, called, by=student.id),
        problem=claimed.item.problem,
    )


def _once(hand_ins: Iterable[HandIn]) -> list[HandIn]:
    """Without the second mention of a file, as when a folder is named twice."""
    kept: dict[tuple[str, object], HandIn] = {}
    for each in hand_ins:
        place = each.submission.path.resolve() if each.submission else (each.file, each.attempt)
        kept.setdefault((each.student.id, place), each)
    return list(kept.values())


def _counted(hand_ins: Sequence[HandIn]) -> list[HandIn]:
    """The records in the order of students, their attempts counted from 1.

    Attempts are ordered by time where it is known of all of a student's, else by the order of
    the paths and what the system adds to names.
    """
    by_student: dict[str, list[HandIn]] = {}
    for each in hand_ins:
        by_student.setdefault(each.student.id, []).append(each)
    counted: list[HandIn] = []
    for student in sorted(by_student):
        theirs = by_student[student]
        timed = all(each.submitted is not None for each in theirs)
        keys = [
            (e.submitted.timestamp() if timed and e.submitted else 0.0, e.attempt) for e in theirs
        ]
        numbers = {key: i for i, key in enumerate(sorted(set(keys)), start=1)}
        numbered = [replace(e, attempt=numbers[k]) for e, k in zip(theirs, keys, strict=True)]
        counted += sorted(numbered, key=lambda e: (e.attempt, e.file))
    return counted
