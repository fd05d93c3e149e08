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
from grader.course.intake.identity import identify_students
from grader.course.intake.layout_detection import detect_layout
from grader.course.intake.layouts import (
    LAYOUTS,
    TIMESTAMP_FILE,
    AttributedFile,
    is_submission,
    mentions_known_student,
    prepend_folder,
)
from grader.course.intake.roster import Roster, Student
from grader.course.intake.unpack import ARCHIVE, Item, Unpacker, UnpackLimits
from grader.reading.submission import KIND_BY_SUFFIX, Submission, SubmissionNotFound, escape_path
from grader.report.render.sanitise import sanitise_line


@dataclass(frozen=True, slots=True)
class SubmittedFile:
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

    submitted_files: tuple[SubmittedFile, ...]
    layouts: tuple[str, ...]
    """the system that each path comes from"""
    not_on_roster: tuple[str, ...]
    """ids of those who are not on the roster, if there is one"""
    unattributed: tuple[str, ...] = ()
    """files whose names do not say whose they are, in the layout of their path"""
    conflicts: tuple[str, ...] = ()
    """what contradicts whose a file is taken to be; nothing was replaced for it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeOptions:
    """How to understand what was handed in."""

    roster: Roster = field(default_factory=Roster)
    layout: str = "auto"
    assignment: str = ""
    """nbgrader's and GitHub Classroom's name of it, where folders do not say it"""
    attempts: str = "latest"
    """`latest` keeps only the last attempt of everybody, `best` all of them"""
    due: datetime | None = None
    """what was handed in after it is late, where the time is known"""
    limits: UnpackLimits = field(default_factory=UnpackLimits)


@dataclass(frozen=True, slots=True)
class _Download:
    """What one path holds."""

    submitted_files: tuple[SubmittedFile, ...]
    layout: str
    unattributed: tuple[str, ...]
    conflicts: tuple[str, ...]


@contextmanager
def gather_submissions(paths: Sequence[str], options: IntakeOptions) -> Iterator[Intake]:
    """What the paths hold; what was unpacked is there until the context is left.

    Raises NotFound for a path that does not exist, or when there is nothing handed in, and
    Undecided where it is not clear which system a path comes from.
    """
    with scratch.make_folder() as folder:
        unpacker = Unpacker(folder, options.limits)
        downloads = [_read_download(Path(p), n, unpacker, options) for n, p in enumerate(paths)]
        found = [each for download in downloads for each in download.submitted_files]
        if not found:
            raise SubmissionNotFound(
                f"{', '.join(paths)}: no submissions; {_explain_empty(downloads)}"
            )
        kept = _number_attempts(_remove_duplicates(found))
        if options.attempts == "latest":
            kept = select_latest_attempts(kept)
        listed = frozenset(options.roster.students)
        strangers = [h.student.id for h in kept if listed and h.student not in listed]
        yield Intake(
            tuple(kept),
            tuple(each.layout for each in downloads),
            tuple(dict.fromkeys(strangers)),
            tuple(text for each in downloads for text in each.unattributed),
            tuple(dict.fromkeys(text for each in downloads for text in each.conflicts)),
        )


def select_latest_attempts(submitted_files: Iterable[SubmittedFile]) -> list[SubmittedFile]:
    """Of everybody the files of the last attempt."""
    listed = list(submitted_files)
    last = {h.student.id: 0 for h in listed}
    for each in listed:
        last[each.student.id] = max(last[each.student.id], each.attempt)
    return [each for each in listed if each.attempt == last[each.student.id]]


def _read_download(path: Path, order: int, unpacker: Unpacker, options: IntakeOptions) -> _Download:
    """What one path holds. Raises NotFound and Undecided."""
    if not path.exists():
        raise SubmissionNotFound(f"{path}: no such file or folder")
    if not path.is_dir() and path.suffix.lower() not in (*KIND_BY_SUFFIX, ARCHIVE):
        raise SubmissionNotFound(
            f"{path}: what is handed in is a folder, a .zip, a .ipynb or a .py file"
        )
    auto = options.layout == "auto"
    layout = detect_layout(path, options.assignment) if auto else options.layout
    items = prepend_folder(list(unpacker.list_items(path)), path, layout)
    outside = list(LAYOUTS[layout](items, options.assignment))
    people = identify_students((each.owner for each in outside), options.roster)
    attributed = list(_open_archives(outside, unpacker))
    known = {each.item.path for each in outside}
    return _Download(
        tuple(
            _make_submitted_file(each, people.students[each.owner], order, options)
            for each in attributed
            if is_submission(each.item)
        ),
        layout,
        tuple(escape_path(Path(i.path)) for i in items if is_submission(i) and i.path not in known),
        (
            *people.conflicts,
            *_find_misattributions(attributed, options),
            *_find_ignored_timestamps(layout, attributed),
        ),
    )


def _explain_empty(downloads: Sequence[_Download]) -> str:
    """Why nothing was handed in."""
    for each in downloads:
        for name in each.unattributed[:1]:
            return f"{sanitise_line(name)} is not as --layout {each.layout} has it; say another one"
    return "they are .ipynb and .py files"


def _open_archives(
    attributed: Iterable[AttributedFile], unpacker: Unpacker
) -> Iterator[AttributedFile]:
    """The same with what is in archives instead of these: whose that is, is known by now."""
    contents: dict[Item, list[Item]] = {}  # a group's archive is claimed by every member
    for each in attributed:
        if each.item not in contents:
            contents[each.item] = list(unpacker.open_item(each.item))
        for item in contents[each.item]:
            inside = item.path.parts[len(each.item.path.parts) :]
            yield replace(each, item=item, student_path=each.student_path / PurePosixPath(*inside))


def _find_misattributions(
    attributed: Iterable[AttributedFile], options: IntakeOptions
) -> Iterator[str]:
    """What in somebody's submission says that somebody else handed it in."""
    listed = list(attributed)
    handles = {each.owner.handle for each in listed}
    for each in listed:
        me = each.owner.handle

        def known(handle: str, me: str = me) -> bool:
            return handle != me and (handle in handles or bool(options.roster.match(handle)))

        if mentions_known_student(each.student_path, known):
            yield f"{escape_path(Path(each.item.path))} is {me}'s, whatever it says"


def _find_ignored_timestamps(layout: str, attributed: Iterable[AttributedFile]) -> Iterator[str]:
    """Files as nbgrader puts them, where students may have put them, too."""
    for each in attributed:
        if (
            layout == "plain"
            and each.student_path.name == TIMESTAMP_FILE
            and len(each.student_path.parts) == 2
        ):
            yield f"{escape_path(Path(each.item.path))} says no time without --layout nbgrader"


def _make_submitted_file(
    attributed: AttributedFile, student: Student, order: int, options: IntakeOptions
) -> SubmittedFile:
    """The record; its attempt is a number for sorting until all are known."""
    called = escape_path(Path(attributed.item.path))
    file = attributed.item.file
    after_due = bool(options.due and attributed.submitted and attributed.submitted > options.due)
    return SubmittedFile(
        student=student,
        handle=attributed.owner.handle,
        file=called,
        attempt=order * 10_000 + attributed.order,
        late=attributed.late or after_due,
        submitted=attributed.submitted,
        submission=None if file is None else Submission(file, called, submitted_by=student.id),
        problem=attributed.item.problem,
    )


def _remove_duplicates(submitted_files: Iterable[SubmittedFile]) -> list[SubmittedFile]:
    """Without the second mention of a file, as when a folder is named twice."""
    kept: dict[tuple[str, object], SubmittedFile] = {}
    for each in submitted_files:
        place = each.submission.path.resolve() if each.submission else (each.file, each.attempt)
        kept.setdefault((each.student.id, place), each)
    return list(kept.values())


def _number_attempts(submitted_files: Sequence[SubmittedFile]) -> list[SubmittedFile]:
    """The records in the order of students, their attempts counted from 1.

    Attempts are ordered by time where it is known of all of a student's, else by the order of
    the paths and what the system adds to names.
    """
    by_student: dict[str, list[SubmittedFile]] = {}
    for each in submitted_files:
        by_student.setdefault(each.student.id, []).append(each)
    counted: list[SubmittedFile] = []
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
