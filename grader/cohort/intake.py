"""From what a course downloaded to frozen records: who handed in which file, when, how often.

Nothing is run and hardly anything is read here: archives are taken apart (`unpack`), names are
understood (`layouts`), people are looked up (`roster`). A file that cannot be taken is a record
with a problem, so that one bad archive stops nobody else's grading.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from grader.cohort import scratch
from grader.cohort.layouts import LAYOUTS, Claimed, handed_in, recognised, rooted
from grader.cohort.roster import Roster, Student
from grader.cohort.unpack import ARCHIVE, Caps, Item, Unpacker
from grader.submission import KINDS, NotFound, Submission, shown


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


@contextmanager
def gathered(paths: Sequence[str], wanted: Wanted) -> Iterator[Intake]:
    """What the paths hold; what was unpacked is there until the context is left.

    Raises NotFound for a path that does not exist, or when there is nothing handed in.
    """
    with scratch.folder() as folder:
        unpacker = Unpacker(folder, wanted.caps)
        found: list[HandIn] = []
        layouts: list[str] = []
        unclaimed: list[str] = []
        for order, path in enumerate(map(Path, paths)):
            items = _items(path, unpacker)
            name, claimed = _claimed(items, wanted)
            layouts.append(name)
            found += [_hand_in(each, order, wanted) for each in claimed]
            known = {each.item.path for each in claimed}
            unclaimed += [
                shown(Path(i.path)) for i in items if handed_in(i) and i.path not in known
            ]
        if not found:
            raise NotFound(f"{', '.join(paths)}: no submissions; they are .ipynb and .py files")
        kept = _counted(_once(found))
        if wanted.attempts == "latest":
            kept = latest(kept)
        strangers = [h.student.id for h in kept if wanted.roster and not _listed(h, wanted)]
        once = tuple(dict.fromkeys(strangers))
        yield Intake(tuple(kept), tuple(layouts), once, tuple(unclaimed))


def latest(hand_ins: Iterable[HandIn]) -> list[HandIn]:
    """Of everybody the files of the last attempt."""
    listed = list(hand_ins)
    last = {h.student.id: 0 for h in listed}
    for each in listed:
        last[each.student.id] = max(last[each.student.id], each.attempt)
    return [each for each in listed if each.attempt == last[each.student.id]]


def _items(path: Path, unpacker: Unpacker) -> list[Item]:
    """What one path holds. Raises NotFound."""
    if not path.exists():
        raise NotFound(f"{path}: no such file or folder")
    if not path.is_dir() and path.suffix.lower() not in (*KINDS, ARCHIVE):
        raise NotFound(f"{path}: what is handed in is a folder, a .zip, a .ipynb or a .py file")
    return rooted(list(unpacker.items(path)), path)


def _claimed(items: Sequence[Item], wanted: Wanted) -> tuple[str, list[Claimed]]:
    """The layout of one path, and whose its files are."""
    auto = wanted.layout == "auto"
    layout = recognised(items, wanted.assignment) if auto else LAYOUTS[wanted.layout]
    name = next(name for name, each in LAYOUTS.items() if each is layout)
    return name, [each for each in layout(items, wanted.assignment) if handed_in(each.item)]


def _hand_in(claimed: Claimed, order: int, wanted: Wanted) -> HandIn:
    """The record; its attempt is a number for sorting until all are known."""
    others = (claimed.email, *claimed.also, claimed.name)
    student = wanted.roster.match(claimed.handle, *others)
    if student is None:
        student = Student(claimed.handle, claimed.name, email=claimed.email)
    called = shown(Path(claimed.item.path))
    file = claimed.item.file
    after_due = bool(wanted.due and claimed.submitted and claimed.submitted > wanted.due)
    return HandIn(
        student=student,
        handle=claimed.handle,
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


def _listed(hand_in: HandIn, wanted: Wanted) -> bool:
    return wanted.roster.match(hand_in.student.id) is not None
