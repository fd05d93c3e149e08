"""Attribute files to students: how the common course systems name and arrange a download.

Theory. Exactly one level of a download is written by the course system: the names in the outermost
folder (Canvas, Moodle, plain folders), the metadata next to the submissions' folders (Gradescope),
the first folders below `submitted` (nbgrader) or `…-submissions` (GitHub Classroom). Everything
below that level comes from the student, and so does the end of a name that begins with the system's
part. A layout reads only that one level, at a fixed depth, so no student can pack a file that
appears to belong to somebody else. The student's part is kept as `AttributedFile.student_path`, so
that the instructor can be warned if it names another student.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from zoneinfo import ZoneInfo

from headcheck.grader.course.intake.gradescope_metadata import (
    FOLDER,
    GradescopeSubmission,
    parse_metadata,
)
from headcheck.grader.course.intake.unpack import Item, is_archive
from headcheck.grader.reading.submission import KIND_BY_SUFFIX, UnreadableSubmission, read_carefully
from headcheck.grader.report.deadlines import YEARS

METADATA_BYTES = 64 << 20
TIMESTAMP_BYTES = 1 << 10


@dataclass(frozen=True, slots=True)
class SubmitterIdentity:
    """A submitter as the course system identifies them."""

    handle: str
    """the id in that system"""
    name: str = ""
    email: str = ""


@dataclass(frozen=True, slots=True)
class AttributedFile:
    """A file or an archive, and its owner."""

    item: Item
    owner: SubmitterIdentity
    student_path: PurePosixPath
    """the part of the path that comes from the student, which never decides the owner"""
    late: bool = False
    submitted: datetime | None = None
    order: int = 0
    """later submissions of a student in the same download have higher numbers"""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a course system names and arranges the files of a download."""

    parse: Callable[[Sequence[Item], str], Iterator[AttributedFile]]
    """attributes the items of a download to students; the text is the assignment's name, if known
    """
    system: str = ""
    """the system's name in messages"""
    companions: re.Pattern[str] | None = None
    """other names that the system writes next to the names by which it is detected"""


# What Canvas and Moodle write before the names of files. The match is non-greedy: neither system
# leaves `_17_` or `_17_assign…` in the student's name, so the rest belongs to the student.
NAME_PATTERN = re.compile(
    r"(?s)(?P<name>.+?)_(?:"
    r"(?:(?P<late>(?i:LATE))_)?(?P<canvas>[0-9]+)_[0-9]+_"
    r"|(?P<moodle>[0-9]+)_assignsubmission_[a-z0-9]+(?:_|\Z)"
    r")(?P<file>.*)"
)
RESUBMITTED_PATTERN = re.compile(r"(?s)(?P<stem>.+)-(?P<again>[0-9]{1,3})")
GITHUB_FOLDER = re.compile(r"(?s)(?P<assignment>.+)-submissions")
GRADESCOPE_METADATA = "submission_metadata.yml"
NBGRADER_FOLDER = "submitted"
NBGRADER_COMPANIONS = re.compile(r"source|release|autograded|feedback|nbgrader_config\.py")
TIMESTAMP_FILE = "timestamp.txt"


def parse_canvas(items: Sequence[Item], assignment: str) -> Iterator[AttributedFile]:
    """Parse Canvas's "Download Submissions": `lovelaceada_LATE_17_4711_attention-1.ipynb`.

    Canvas appends -1, -2 to names that were submitted before. A download contains only last
    attempts. If two downloads are merged, `attention-1` comes after `attention`, while `part-1` and
    `part-2` without a `part` are two files of one attempt.
    """
    parsed = [each for each in _match_names(items) if each[1]["canvas"]]
    stems = {(name["canvas"], PurePosixPath(name["file"]).stem) for _, name, _ in parsed}
    for item, name, student_path in parsed:
        again = RESUBMITTED_PATTERN.fullmatch(PurePosixPath(name["file"]).stem)
        order = int(again["again"]) if again and (name["canvas"], again["stem"]) in stems else 0
        owner = SubmitterIdentity(name["canvas"], name["name"])
        yield AttributedFile(item, owner, student_path, late=name["late"] is not None, order=order)


def parse_moodle(items: Sequence[Item], assignment: str) -> Iterator[AttributedFile]:
    """Parse Moodle's "Download all submissions", in folders or not: `Ada Lovelace_123_assign…_`.

    The number is that of the participant in the offline grading worksheet, which may serve as the
    roster.
    """
    for item, name, student_path in _match_names(items):
        if number := name["moodle"]:
            yield AttributedFile(item, SubmitterIdentity(number, name["name"]), student_path)


def parse_gradescope(items: Sequence[Item], assignment: str) -> Iterator[AttributedFile]:
    """Parse Gradescope's "Export Submissions": folders next to `submission_metadata.yml`.

    A group's submission belongs to every member.
    """
    depth = _count_wrapping_folders(items, FOLDER.fullmatch)
    metadata = [each for each in items if each.path.parts[depth:] == (GRADESCOPE_METADATA,)]
    submissions = parse_metadata(_read_text(metadata[0], METADATA_BYTES)) if metadata else {}
    unknown = GradescopeSubmission()
    for item in items:
        folder, *rest = item.path.parts[depth:]
        student_path = PurePosixPath(*rest)
        submission = submissions.get(folder, unknown) if rest else unknown
        for who in submission.submitters:
            owner = SubmitterIdentity(who.sid or who.email or folder, who.name, who.email)
            yield AttributedFile(item, owner, student_path, submitted=submission.created)
        if not submission.submitters and is_submission(item):
            text = f"no folder of {GRADESCOPE_METADATA}, so its student is not known"
            problem = Item(item.path, None, item.problem or text)
            yield AttributedFile(problem, SubmitterIdentity(folder), student_path)


def parse_nbgrader(items: Sequence[Item], assignment: str) -> Iterator[AttributedFile]:
    """Parse nbgrader's `submitted/<student>/<assignment>/`, with or without the first folder."""
    depth = _count_leading_folders(items)
    times = {
        item.path.parent: _parse_timestamp(_read_text(item, TIMESTAMP_BYTES))
        for item in items
        if item.path.name == TIMESTAMP_FILE and len(item.path.parts) == depth + 3
    }
    for item in items:
        parts = item.path.parts
        inside = depth == 0 or parts[:depth][-1] == NBGRADER_FOLDER
        if not inside or len(parts) < depth + 3 or assignment not in ("", parts[depth + 1]):
            continue
        owner, student_path = SubmitterIdentity(parts[depth]), PurePosixPath(*parts[depth + 2 :])
        time = times.get(PurePosixPath(*parts[: depth + 2]))
        yield AttributedFile(item, owner, student_path, submitted=time)


def parse_github(items: Sequence[Item], assignment: str) -> Iterator[AttributedFile]:
    """Parse GitHub Classroom's `<assignment>-submissions/<assignment>-<username>/`."""
    common = f"{assignment or _find_common_prefix(items)}-"
    for item in items:
        parts = item.path.parts
        named = GITHUB_FOLDER.fullmatch(parts[0])
        prefix, depth = (f"{named['assignment']}-", 1) if named else (common, 0)
        repository = parts[depth] if len(parts) > depth + 1 else ""
        if repository.startswith(prefix) and repository != prefix:
            owner = SubmitterIdentity(repository.removeprefix(prefix))
            yield AttributedFile(item, owner, PurePosixPath(*parts[depth + 1 :]))


def parse_plain(items: Sequence[Item], assignment: str) -> Iterator[AttributedFile]:
    """Parse a file for every student, `ada.ipynb`, or a folder, `ada/attention.py`."""
    for item in items:
        first, *rest = item.path.parts
        handle = first if rest else item.path.stem
        yield AttributedFile(item, SubmitterIdentity(handle), PurePosixPath(*rest))


LAYOUTS: Mapping[str, Layout] = {
    "canvas": Layout(parse_canvas, "Canvas"),
    "moodle": Layout(parse_moodle, "Moodle"),
    "gradescope": Layout(parse_gradescope, "Gradescope", FOLDER),
    "nbgrader": Layout(parse_nbgrader, "nbgrader", NBGRADER_COMPANIONS),
    "github": Layout(parse_github, "GitHub Classroom"),
    "plain": Layout(parse_plain),
}


def prepend_folder(items: Sequence[Item], path: Path, layout: str) -> list[Item]:
    """Prepend the folder given on the command line to the items, if its name is meaningful."""
    nbgrader = layout == "nbgrader" and path.name == NBGRADER_FOLDER
    github = layout == "github" and GITHUB_FOLDER.fullmatch(path.name)
    if not (nbgrader or github) or not path.is_dir():
        return list(items)
    return [Item(PurePosixPath(path.name) / each.path, each.file, each.problem) for each in items]


def is_submission(item: Item) -> bool:
    """Return whether an item is a submission, an archive, or a file that could not be read."""
    return item.path.suffix.lower() in KIND_BY_SUFFIX or is_archive(item) or bool(item.problem)


def mentions_known_student(student_path: PurePosixPath, known: Callable[[str], bool]) -> bool:
    """Return whether a student's path imitates a system's name for a student who is `known`."""
    parts = student_path.parts
    if GRADESCOPE_METADATA in parts:
        return True
    names = filter(None, map(NAME_PATTERN.fullmatch, parts))
    handles = [name["canvas"] or name["moodle"] for name in names]
    for folder, below in itertools.pairwise(parts):
        if named := GITHUB_FOLDER.fullmatch(folder):
            handles.append(below.removeprefix(f"{named['assignment']}-"))
        elif folder == NBGRADER_FOLDER:
            handles.append(below)
    return any(map(known, handles))


def _match_names(items: Sequence[Item]) -> Iterator[tuple[Item, re.Match[str], PurePosixPath]]:
    """Yield items named by Canvas or Moodle, the parsed name, and the student's part of it."""
    depth = _count_wrapping_folders(
        items, lambda name: NAME_PATTERN.fullmatch(name) or "_assignsubmission_" in name
    )
    for item in items:
        first, *rest = item.path.parts[depth:]
        if name := NAME_PATTERN.fullmatch(first):
            yield item, name, PurePosixPath(name["file"], *rest)


def _count_wrapping_folders(items: Sequence[Item], is_a_submission: Callable[[str], object]) -> int:
    """Count the folders around the whole download, as when an instructor packed it again."""
    depth = 0
    while items and all(len(item.path.parts) > depth + 1 for item in items):
        names = {item.path.parts[depth] for item in items}
        if len(names) > 1 or is_a_submission(names.pop()):
            break
        depth += 1
    return depth


def _count_leading_folders(items: Sequence[Item]) -> int:
    """Count the folders above the students' folders; `submitted`, if present, is the last one."""
    parts = [item.path.parts for item in items]
    if any(each[0] == NBGRADER_FOLDER for each in parts):
        return 1
    alone = len({each[0] for each in parts}) == 1
    return 2 if alone and any(each[1:2] == (NBGRADER_FOLDER,) for each in parts) else 0


def _find_common_prefix(items: Sequence[Item]) -> str:
    """Return the common beginning of the folders' names, up to a hyphen."""
    names = [item.path.parts[0].split("-") for item in items if len(item.path.parts) > 1]
    common = itertools.takewhile(lambda words: len(set(words)) == 1, zip(*names, strict=False))
    return "-".join(words[0] for words in common)


def _read_text(item: Item, limit: int) -> str:
    """Return the text of a metadata file, or "" if it is unreadable, not a file, or too large."""
    if item.file is None:
        return ""
    try:
        data = read_carefully(item.file, limit)
    except UnreadableSubmission:
        return ""
    return data.decode("utf-8", "replace")


def _parse_timestamp(text: str) -> datetime | None:
    """Parse a time like `2026-02-02 15:58:23.948203 America/Los_Angeles`; None if invalid.

    Years in which nobody can have handed in anything are invalid: the file is the student's.
    """
    match = re.match(r"\s*(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?)\s*(\S*)", text)
    if match is None:
        return None
    try:
        zone = ZoneInfo(match[2]) if match[2] else UTC
        time = datetime.fromisoformat(match[1]).replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OSError, LookupError, OverflowError):
        return None
    return time if time.year in YEARS else None
