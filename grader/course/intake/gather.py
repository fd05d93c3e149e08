"""Gather submissions from downloads: who submitted which file, when, and in which attempt.

Nothing is executed here. A download is listed (`unpack`), its system is detected
(`layout_detection`), and its names are parsed (`layouts`) and matched with the roster (`identity`).
Students' archives are unpacked only after this, when their owners are known. A file that cannot be
read becomes a record with a problem, so that one bad archive does not stop the grading of others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePosixPath

from headcheck.grader.course.intake import scratch
from headcheck.grader.course.intake.identity import identify_students
from headcheck.grader.course.intake.layout_detection import detect_layout
from headcheck.grader.course.intake.layouts import (
    LAYOUTS,
    TIMESTAMP_FILE,
    AttributedFile,
    is_submission,
    mentions_known_student,
    prepend_folder,
)
from headcheck.grader.course.intake.roster import Roster, Student
from headcheck.grader.course.intake.unpack import ARCHIVE, Item, Unpacker, UnpackLimits
from headcheck.grader.grouped import group_by
from headcheck.grader.reading.submission import (
    KIND_BY_SUFFIX,
    FilesByPath,
    Submission,
    SubmissionNotFound,
    escape_path,
    is_of_other_kind,
)
from headcheck.grader.report.deadlines import YEARS
from headcheck.grader.report.render.sanitise import sanitise_line


@dataclass(frozen=True, slots=True)
class SubmittedFile:
    """A submitted file; if it cannot be read, `problem` says why."""

    student: Student
    handle: str
    """the student's id in the course system"""
    file: str
    """the file's name in the course system, for display"""
    attempt: int
    late: bool
    """whether the course system marks it as late"""
    submitted: datetime | None
    submission: Submission | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Intake:
    """The submitted files of one or more downloads, and how they were read."""

    submitted_files: tuple[SubmittedFile, ...]
    layouts: tuple[str, ...]
    """the layout of each path"""
    not_on_roster: tuple[str, ...]
    """ids of students who are not on the roster, if there is a roster"""
    unattributed: tuple[str, ...] = ()
    """files whose names identify no owner in the layout of their path"""
    conflicts: tuple[str, ...] = ()
    """evidence against an attribution; the attribution is kept"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeOptions:
    """How to read downloads."""

    roster: Roster = field(default_factory=Roster)
    layout: str = "auto"
    assignment: str = ""
    """the assignment's name in nbgrader or GitHub Classroom, if the folders do not show it"""
    attempts: str = "latest"
    """`latest` keeps only each student's last attempt, `best` keeps all attempts"""
    limits: UnpackLimits = field(default_factory=UnpackLimits)


@contextmanager
def gather_submissions(paths: Sequence[str], options: IntakeOptions) -> Iterator[Intake]:
    """Yield the submissions in these paths; unpacked files are removed at the end of the context.

    Raises SubmissionNotFound if a path does not exist or there is no submission, and
    AmbiguousLayout if a path may come from more than one system.
    """
    with scratch.make_folder() as folder:
        unpacker = Unpacker(folder, options.limits)
        downloads = [_read_download(Path(p), n, unpacker, options) for n, p in enumerate(paths)]
        submitted_files = [each for download in downloads for each in download.submitted_files]
        if not submitted_files:
            reason = _explain_empty(downloads)
            raise SubmissionNotFound(f"{', '.join(paths)}: no submissions; {reason}")
        kept = _number_attempts(_remove_duplicates(_drop_attachments(submitted_files)))
        if options.attempts == "latest":
            kept = select_latest_attempts(kept)
        listed = frozenset(options.roster.students)
        not_listed = [each.student.id for each in kept if listed and each.student not in listed]
        yield Intake(
            tuple(kept),
            tuple(layout for each in downloads for layout in each.layouts),
            tuple(dict.fromkeys(not_listed)),
            tuple(text for each in downloads for text in each.unattributed),
            tuple(dict.fromkeys(text for each in downloads for text in each.conflicts)),
        )


def select_latest_attempts(submitted_files: Sequence[SubmittedFile]) -> list[SubmittedFile]:
    """Return the files of each student's last attempt."""
    listed = sorted(submitted_files, key=lambda each: each.attempt)
    last = {each.student.id: each.attempt for each in listed}
    return [each for each in submitted_files if each.attempt == last[each.student.id]]


def _read_download(path: Path, order: int, unpacker: Unpacker, options: IntakeOptions) -> Intake:
    """Read one path, without the roster. Raises SubmissionNotFound and AmbiguousLayout."""
    if not path.exists():
        raise SubmissionNotFound(f"{path}: no such file or folder")
    if not path.is_dir() and path.suffix.lower() not in (*KIND_BY_SUFFIX, ARCHIVE):
        text = "a submission is a folder, a .zip, a .ipynb or a .py file"
        raise SubmissionNotFound(f"{path}: {text}")
    auto = options.layout == "auto"
    layout = detect_layout(path, options.assignment) if auto else options.layout
    items = prepend_folder(list(unpacker.list_items(path)), path, layout)
    listed = list(LAYOUTS[layout].parse(items, options.assignment))
    students, conflicts = identify_students((each.owner for each in listed), options.roster)
    attributed = list(_open_archives(listed, unpacker))
    beside = _group_by_author(attributed)
    known = {each.item.path for each in listed}
    unknown = [
        item.path
        for item in items
        if is_submission(item) and item.path not in known and not is_of_other_kind(item.path.name)
    ]
    return Intake(
        tuple(
            _make_submitted_file(each, students[each.owner], order, beside)
            for each in attributed
            if is_submission(each.item)
        ),
        (layout,),
        not_on_roster=(),
        unattributed=tuple(escape_path(Path(each)) for each in unknown),
        conflicts=(
            *conflicts,
            *_find_misattributions(attributed, options),
            *_find_ignored_timestamps(layout, attributed),
        ),
    )


def _explain_empty(downloads: Sequence[Intake]) -> str:
    """Return why there are no submissions."""
    for each in downloads:
        for name in each.unattributed[:1]:
            layout = each.layouts[0]
            return f"{sanitise_line(name)} does not fit --layout {layout}; choose another one"
    return "they are .ipynb and .py files"


def _open_archives(
    attributed: Iterable[AttributedFile], unpacker: Unpacker
) -> Iterator[AttributedFile]:
    """Replace archives, whose owners are now known, with their members."""
    contents: dict[Item, list[Item]] = {}  # each member of a group owns the group's archive
    for each in attributed:
        if each.item not in contents:
            contents[each.item] = list(unpacker.open_item(each.item))
        for item in contents[each.item]:
            inside = item.path.parts[len(each.item.path.parts) :]
            yield replace(each, item=item, student_path=each.student_path / PurePosixPath(*inside))


def _get_submission_key(attributed: AttributedFile) -> tuple[object, ...]:
    """Return a key that the files of one submission of one student have in common."""
    return attributed.owner, attributed.order, attributed.submitted, attributed.late


def _group_by_author(
    attributed: Iterable[AttributedFile],
) -> dict[tuple[object, ...], FilesByPath | None]:
    """Return the files of each submission by the student's own paths.

    The value is None if two files have the same path, since they may be two attempts.
    """
    groups: dict[tuple[object, ...], dict[tuple[str, ...], set[Path]]] = {}
    for each in attributed:
        if each.item.file is not None:
            files = groups.setdefault(_get_submission_key(each), {})
            path = each.student_path.parts or (each.item.path.name,)  # named after its owner
            files.setdefault(path, set()).add(each.item.file)
    return {
        key: {path: min(found) for path, found in files.items()}
        if all(len(found) == 1 for found in files.values())
        else None
        for key, files in groups.items()
    }


def _find_misattributions(
    attributed: Sequence[AttributedFile], options: IntakeOptions
) -> Iterator[str]:
    """Report names in one student's submission that indicate another known student as the owner."""
    handles = {each.owner.handle for each in attributed}
    for each in attributed:
        owner = each.owner.handle

        def is_other(handle: str, owner: str = owner) -> bool:
            return handle != owner and (handle in handles or bool(options.roster.match(handle)))

        if mentions_known_student(each.student_path, is_other):
            yield f"{escape_path(Path(each.item.path))} is {owner}'s, whatever it says"


def _find_ignored_timestamps(layout: str, attributed: Iterable[AttributedFile]) -> Iterator[str]:
    """Report nbgrader's timestamps that say nothing.

    These are the ones in plain folders, where a student could have written them, and those without
    a time at which somebody can have handed in.
    """
    for each in (each for each in attributed if each.student_path.name == TIMESTAMP_FILE):
        depth = len(each.student_path.parts)
        if layout == "plain" and depth == 2:
            yield f"{escape_path(Path(each.item.path))} says no time without --layout nbgrader"
        elif layout == "nbgrader" and depth == 1 and each.submitted is None:
            text = f"says no time between {YEARS.start} and {YEARS.stop}"
            yield f"{escape_path(Path(each.item.path))} {text}"


def _make_submitted_file(
    attributed: AttributedFile,
    student: Student,
    order: int,
    beside: Mapping[tuple[object, ...], FilesByPath | None],
) -> SubmittedFile:
    """Return the record of a file; its attempt is only a sort key until all files are known."""
    name = escape_path(Path(attributed.item.path))
    file = attributed.item.file
    own = beside.get(_get_submission_key(attributed))
    return SubmittedFile(
        student=student,
        handle=attributed.owner.handle,
        file=name,
        attempt=order * 10_000 + attributed.order,
        late=attributed.late,
        submitted=attributed.submitted,
        submission=(
            None if file is None else Submission(file, name, submitted_by=student.id, beside=own)
        ),
        problem=attributed.item.problem,
    )


def _drop_attachments(submitted_files: Sequence[SubmittedFile]) -> list[SubmittedFile]:
    """Drop files that cannot be graded if the same attempt contains files that can."""
    judged = {(e.student.id, e.attempt) for e in submitted_files if not _is_of_other_kind(e)}
    return [
        each
        for each in submitted_files
        if not _is_of_other_kind(each) or (each.student.id, each.attempt) not in judged
    ]


def _is_of_other_kind(submitted_file: SubmittedFile) -> bool:
    return submitted_file.submission is None and is_of_other_kind(Path(submitted_file.file).name)


def _remove_duplicates(submitted_files: Iterable[SubmittedFile]) -> list[SubmittedFile]:
    """Drop repeated files, for example if a folder is given twice."""
    kept: dict[tuple[str, object], SubmittedFile] = {}
    for each in submitted_files:
        location = each.submission.path.resolve() if each.submission else (each.file, each.attempt)
        kept.setdefault((each.student.id, location), each)
    return list(kept.values())


def _number_attempts(submitted_files: Sequence[SubmittedFile]) -> list[SubmittedFile]:
    """Return the files by student, with attempts numbered from 1.

    A student's attempts are ordered by time if all times are known, else by the paths and the
    numbers that the system appends to names.
    """
    by_student = group_by(submitted_files, lambda each: each.student.id)
    numbered: list[SubmittedFile] = []
    for _, own in sorted(by_student.items()):
        timed = all(each.submitted is not None for each in own)
        keys = [(e.submitted.timestamp() if timed and e.submitted else 0.0, e.attempt) for e in own]
        numbers = {key: i for i, key in enumerate(sorted(set(keys)), start=1)}
        files = [replace(e, attempt=numbers[k]) for e, k in zip(own, keys, strict=True)]
        numbered += sorted(files, key=lambda e: (e.attempt, e.file))
    return numbered
