"""Whose file is it? What the downloads of the common systems are called and how they are laid out.

Theory. Of every download one level was written by the course system: the names in the outermost
folder (Canvas, Moodle, plain folders), the metadata beside the folders of submissions (Gradescope),
the first folders below `submitted` (nbgrader) or `…-submissions` (GitHub Classroom). Below that
level everything is the student's, and so is the end of a name that the system began. A layout
looks at its one level, at a fixed depth, and at nothing else, so nobody can pack anything that
says whose it is. What is the student's goes along as `Claimed.own`, so that it can be told when
it speaks of somebody else.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from zoneinfo import ZoneInfo

from grader.course.intake import gradescope_metadata
from grader.course.intake.unpack import Item, is_archive
from grader.reading.submission import KIND_BY_SUFFIX, Submission, UnreadableSubmission
from grader.reading.submission import read_submission as read_carefully

METADATA_BYTES = 64 << 20
TIMESTAMP_BYTES = 1 << 10


@dataclass(frozen=True, slots=True)
class SubmitterIdentity:
    """Who handed in, in the words of the system that it comes from."""

    handle: str
    """the id there"""
    name: str = ""
    email: str = ""
    other_ids: tuple[str, ...] = ()
    """other ids by which a roster may know the student"""


@dataclass(frozen=True, slots=True)
class AttributedFile:
    """A file or an archive, and whose it is."""

    item: Item
    owner: SubmitterIdentity
    student_path: PurePosixPath
    """what the student called it; who handed it in is never read from this"""
    late: bool = False
    submitted: datetime | None = None
    order: int = 0
    """of several hand-ins of one student in one download, the later has the higher number"""


Layout = Callable[[Sequence[Item], str], Iterator[AttributedFile]]

# What Canvas and Moodle write before the names of files. The shortest name counts: neither leaves
# `_17_` or `_17_assign…` in a name that it writes there, so whatever follows is the student's.
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
TIMESTAMP_FILE = "timestamp.txt"


def parse_canvas(items: Sequence[Item], assignment: str) -> Iterator[AttributedFile]:
    """Canvas's "Download Submissions": `lovelaceada_LATE_17_4711_attention-1.ipynb`.

    Canvas adds -1, -2 to names that were handed in before. A download has everybody's last
    attempt only; in two of them put together `attention-1` comes after `attention`, while
    `part-1` and `part-2` alone are two files of one attempt.
    """
    parsed = [each for each in _match_names(items) if each[1]["canvas"]]
    stems = {(mark["canvas"], PurePosixPath(mark["file"]).stem) for _, mark, _ in parsed}
    for item, mark, student_path in parsed:
        again = RESUBMITTED_PATTERN.fullmatch(PurePosixPath(mark["file"]).stem)
        before = again is not None and (mark["canvas"], again["stem"]) in stems
        order = int(again["again"]) if again is not None and before else 0
        who = SubmitterIdentity(mark["canvas"], mark["name"])
        yield AttributedFile(item, who, student_path, late=mark["late"] is not None, order=order)


def parse_moodle(items: Sequence[Item], assignment: str) -> Iterator[AttributedFile]:
    """Moodle's "Download all submissions", in folders or not: `Ada Lovelace_123_assign…_file_`.

    The number is that of "Participant 123" in the offline grading worksheet.
    """
    for item, mark, student_path in _match_names(items):
        if number := mark["moodle"]:
            also = (f"Participant {number}",)
            yield AttributedFile(
                item, SubmitterIdentity(number, mark["name"], other_ids=also), student_path
            )


def parse_gradescope(items: Sequence[Item], assignment: str) -> Iterator[AttributedFile]:
    """Gradescope's "Export Submissions": a folder for each, and `submission_metadata.yml`.

    A group's submission is that of every member.
    """
    depth = _count_wrapping_folders(items, gradescope_metadata.FOLDER.fullmatch)
    beside = [each for each in items if each.path.parts[depth:] == (GRADESCOPE_METADATA,)]
    submissions = (
        gradescope_metadata.parse_metadata(_read_text(beside[0], METADATA_BYTES)) if beside else {}
    )
    for item in items:
        folder, *rest = item.path.parts[depth:]
        student_path = PurePosixPath(*rest)
        handed = (
            submissions.get(folder, gradescope_metadata.GradescopeSubmission())
            if rest
            else gradescope_metadata.GradescopeSubmission()
        )
        for who in handed.submitters:
            handle = who.sid or who.email or folder
            claimed = SubmitterIdentity(handle, who.name, who.email)
            yield AttributedFile(item, claimed, student_path, submitted=handed.created)
        if not handed.submitters and is_submission(item):
            problem = (
                item.problem or f"no folder of {GRADESCOPE_METADATA}: whose it is is not known"
            )
            yield AttributedFile(
                Item(item.path, None, problem), SubmitterIdentity(folder), student_path
            )


def parse_nbgrader(items: Sequence[Item], assignment: str) -> Iterator[AttributedFile]:
    """What nbgrader collects: `submitted/<student>/<assignment>/`, or without the first folder."""
    depth = _count_leading_folders(items)
    times = {
        item.path.parent: _parse_timestamp(_read_text(item, TIMESTAMP_BYTES))
        for item in items
        if item.path.name == TIMESTAMP_FILE and len(item.path.parts) == depth + 3
    }
    for item in items:
        parts = item.path.parts
        there = depth == 0 or parts[:depth][-1] == NBGRADER_FOLDER
        if there and len(parts) >= depth + 3 and (not assignment or parts[depth + 1] == assignment):
            time = times.get(PurePosixPath(*parts[: depth + 2]))
            student_path = PurePosixPath(*parts[depth + 2 :])
            yield AttributedFile(
                item, SubmitterIdentity(parts[depth]), student_path, submitted=time
            )


def parse_github(items: Sequence[Item], assignment: str) -> Iterator[AttributedFile]:
    """GitHub Classroom: `<assignment>-submissions/<assignment>-<username>/`."""
    common = f"{assignment or _find_common_prefix(items)}-"
    for item in items:
        parts = item.path.parts
        named = GITHUB_FOLDER.fullmatch(parts[0])
        prefix, depth = (f"{named['assignment']}-", 1) if named else (common, 0)
        repository = parts[depth] if len(parts) > depth + 1 else ""
        if repository.startswith(prefix) and repository != prefix:
            student_path = PurePosixPath(*parts[depth + 1 :])
            yield AttributedFile(
                item, SubmitterIdentity(repository.removeprefix(prefix)), student_path
            )


def parse_plain(items: Sequence[Item], assignment: str) -> Iterator[AttributedFile]:
    """A file for every student, `ada.ipynb`, or a folder for every student, `ada/attention.py`."""
    for item in items:
        first, *rest = item.path.parts
        handle = first if rest else item.path.stem
        yield AttributedFile(item, SubmitterIdentity(handle), PurePosixPath(*rest))


LAYOUTS: Mapping[str, Layout] = {
    "canvas": parse_canvas,
    "moodle": parse_moodle,
    "gradescope": parse_gradescope,
    "nbgrader": parse_nbgrader,
    "github": parse_github,
    "plain": parse_plain,
}


def prepend_folder(items: Sequence[Item], path: Path, layout: str) -> list[Item]:
    """The items, with the folder that they were in on the command line if its name says much."""
    told = (layout == "nbgrader" and path.name == NBGRADER_FOLDER) or (
        layout == "github" and GITHUB_FOLDER.fullmatch(path.name)
    )
    if not (told and path.is_dir()):
        return list(items)
    return [Item(PurePosixPath(path.name) / each.path, each.file, each.problem) for each in items]


def is_submission(item: Item) -> bool:
    """Whether it can be a submission, or an archive of some, or is one that could not be had."""
    return item.path.suffix.lower() in KIND_BY_SUFFIX or is_archive(item) or bool(item.problem)


def mentions_known_student(student_path: PurePosixPath, known: Callable[[str], bool]) -> bool:
    """Whether what a student packed looks like a system's word on somebody who is known."""
    parts = student_path.parts
    if GRADESCOPE_METADATA in parts:
        return True
    marks = filter(None, map(NAME_PATTERN.fullmatch, parts))
    said = [mark["canvas"] or mark["moodle"] for mark in marks]
    for folder, below in itertools.pairwise(parts):
        if named := GITHUB_FOLDER.fullmatch(folder):
            said.append(below.removeprefix(f"{named['assignment']}-"))
        elif folder == NBGRADER_FOLDER:
            said.append(below)
    return any(map(known, said))


def _match_names(items: Sequence[Item]) -> Iterator[tuple[Item, re.Match[str], PurePosixPath]]:
    """What Canvas or Moodle named, how, and the student's part of the name."""
    depth = _count_wrapping_folders(
        items, lambda name: NAME_PATTERN.fullmatch(name) or "_assignsubmission_" in name
    )
    for item in items:
        first, *rest = item.path.parts[depth:]
        if mark := NAME_PATTERN.fullmatch(first):
            yield item, mark, PurePosixPath(mark["file"], *rest)


def _count_wrapping_folders(items: Sequence[Item], is_a_submission: Callable[[str], object]) -> int:
    """How many folders lie around all of the download, as when somebody packed it again."""
    depth = 0
    while items and all(len(item.path.parts) > depth + 1 for item in items):
        names = {item.path.parts[depth] for item in items}
        if len(names) > 1 or is_a_submission(names.pop()):
            break
        depth += 1
    return depth


def _count_leading_folders(items: Sequence[Item]) -> int:
    """How many folders lie above those of students; `submitted` is the last, if it is there."""
    parts = [item.path.parts for item in items]
    if any(each[0] == NBGRADER_FOLDER for each in parts):
        return 1
    alone = len({each[0] for each in parts}) == 1
    return 2 if alone and any(each[1:2] == (NBGRADER_FOLDER,) for each in parts) else 0


def _find_common_prefix(items: Sequence[Item]) -> str:
    """What the folders' names begin with, up to a hyphen."""
    names = [item.path.parts[0].split("-") for item in items if len(item.path.parts) > 1]
    same: list[str] = []
    for words in zip(*names, strict=False):
        if len(set(words)) > 1:
            break
        same.append(words[0])
    return "-".join(same)


def _read_text(item: Item, limit: int) -> str:
    """What a file of metadata says; nothing if it cannot be had, is no file or is too large."""
    if item.file is None:
        return ""
    try:
        data = read_carefully(Submission(item.file, str(item.path)), limit)
    except UnreadableSubmission:
        return ""
    return data.decode("utf-8", "replace")


def _parse_timestamp(text: str) -> datetime | None:
    """A time as in `2026-02-02 15:58:23.948203 America/Los_Angeles`; None if it is none."""
    found = re.match(r"\s*(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?)\s*(\S*)", text)
    if found is None:
        return None
    try:
        zone = ZoneInfo(found[2]) if found[2] else UTC
        return datetime.fromisoformat(found[1]).replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OSError, LookupError, OverflowError):
        return None
