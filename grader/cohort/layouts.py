"""Whose file is it? What the downloads of the common systems are called and how they are laid out.

Each layout is a function from what was found to who handed it in. `recognised` chooses by what
only one system writes; what none of them wrote is a plain folder.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from zoneinfo import ZoneInfo

from grader.cohort import gradescope
from grader.cohort.unpack import METADATA, Item
from grader.submission import KINDS

METADATA_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Claimed:
    """A file, and whose it says it is."""

    item: Item
    handle: str
    """the id in the system that it comes from"""
    name: str = ""
    email: str = ""
    late: bool = False
    submitted: datetime | None = None
    order: int = 0
    """of several hand-ins of one student in one download, the later has the higher number"""
    also: tuple[str, ...] = ()
    """other ids by which a roster may know the student"""


Layout = Callable[[Sequence[Item], str], Iterator[Claimed]]

CANVAS = re.compile(r"(?P<name>.+?)_(?:(?P<late>LATE)_)?(?P<id>\d+)_(?P<nr>\d+)_(?P<file>.+)", re.I)
AGAIN = re.compile(r"(?P<stem>.+)-(?P<again>\d{1,3})")
MOODLE = re.compile(r"(?P<name>.+)_(?P<id>\d+)_assignsubmission_file_?(?P<file>.*)")
GITHUB = re.compile(r"(?P<assignment>.+)-submissions")
GRADESCOPE = "submission_metadata.yml"


def canvas(items: Sequence[Item], assignment: str) -> Iterator[Claimed]:
    """Canvas's "Download Submissions": `lovelaceada_LATE_17_4711_attention-1.ipynb`.

    Canvas adds -1, -2 to names that were handed in before. A download has everybody's last
    attempt only; in two of them put together `attention-1` comes after `attention`, while
    `part-1` and `part-2` alone are two files of one attempt.
    """
    parsed = [(item, found) for item in items if (found := _canvas_name(item.path))]
    stems = {(found["id"], PurePosixPath(found["file"]).stem) for _, found in parsed}
    for item, found in parsed:
        again = AGAIN.fullmatch(PurePosixPath(found["file"]).stem)
        before = again is not None and (found["id"], again["stem"]) in stems
        order = int(again["again"]) if again is not None and before else 0
        late = found["late"] is not None
        yield Claimed(item, found["id"], found["name"], late=late, order=order)


def _canvas_name(path: PurePosixPath) -> re.Match[str] | None:
    """What the first part that looks so says; a student's archive is a folder here."""
    return next(filter(None, map(CANVAS.fullmatch, path.parts)), None)


def moodle(items: Sequence[Item], assignment: str) -> Iterator[Claimed]:
    """Moodle's "Download all submissions", in folders or not: `Ada Lovelace_123_assign…_file_`.

    The number is that of "Participant 123" in the offline grading worksheet.
    """
    for item in items:
        for part in item.path.parts:
            if found := MOODLE.fullmatch(part):
                also = (f"Participant {found['id']}",)
                yield Claimed(item, found["id"], found["name"], also=also)
                break


def from_gradescope(items: Sequence[Item], assignment: str) -> Iterator[Claimed]:
    """Gradescope's "Export Submissions": a folder for each, and `submission_metadata.yml`.

    A group's submission is that of every member.
    """
    submitters: dict[PurePosixPath, gradescope.Handed] = {}
    for item in items:
        if item.path.name == GRADESCOPE and item.file is not None:
            for folder, handed in gradescope.read(_text(item.file)).items():
                submitters[item.path.parent / folder] = handed
    for item in items:
        home = next((parent for parent in item.path.parents if parent in submitters), None)
        if home is None:
            if handed_in(item):
                problem = item.problem or f"no folder of {GRADESCOPE}: whose it is is not known"
                yield Claimed(Item(item.path, None, problem), _first(item.path))
            continue
        handed = submitters[home]
        for who in handed.submitters:
            handle = who.sid or who.email or who.name or home.name
            yield Claimed(item, handle, who.name, who.email, submitted=handed.created)


def nbgrader(items: Sequence[Item], assignment: str) -> Iterator[Claimed]:
    """What nbgrader collects: `submitted/<student>/<assignment>/`, or without the first folder."""
    times: dict[PurePosixPath, datetime | None] = {
        item.path.parent: _timestamp(_text(item.file))
        for item in items
        if item.path.name == "timestamp.txt" and item.file is not None
    }
    for item in items:
        parts = item.path.parts
        if "submitted" in parts[:-3]:
            parts = parts[parts.index("submitted") + 1 :]
        if len(parts) >= 3 and (not assignment or parts[1] == assignment):
            depth = len(item.path.parts) - len(parts) + 2
            home = PurePosixPath(*item.path.parts[:depth])
            yield Claimed(item, parts[0], submitted=times.get(home))


def github(items: Sequence[Item], assignment: str) -> Iterator[Claimed]:
    """GitHub Classroom: `<assignment>-submissions/<assignment>-<username>/`."""
    for item in items:
        parts = item.path.parts[:-1]
        named = [found["assignment"] for p in parts if (found := GITHUB.fullmatch(p))]
        prefix = f"{named[0] if named else assignment or _common(items)}-"
        for part in parts:
            if part.startswith(prefix) and not GITHUB.fullmatch(part) and part != prefix:
                yield Claimed(item, part.removeprefix(prefix))
                break


def plain(items: Sequence[Item], assignment: str) -> Iterator[Claimed]:
    """A file for every student, `ada.ipynb`, or a folder for every student, `ada/attention.py`."""
    for item in items:
        yield Claimed(item, _first(item.path))


LAYOUTS: Mapping[str, Layout] = {
    "canvas": canvas,
    "moodle": moodle,
    "gradescope": from_gradescope,
    "nbgrader": nbgrader,
    "github": github,
    "plain": plain,
}


def recognised(items: Sequence[Item], assignment: str = "") -> Layout:
    """The layout that these files have."""
    names = {item.path.name for item in items}
    if GRADESCOPE in names:
        return from_gradescope
    if "timestamp.txt" in names or any("submitted" in item.path.parts[:-3] for item in items):
        return nbgrader
    if any(GITHUB.fullmatch(part) for item in items for part in item.path.parts[:-1]):
        return github
    handed = [item for item in items if item.path.name not in METADATA]
    for layout in (moodle, canvas):
        if handed and len(list(layout(handed, assignment))) == len(handed):
            return layout
    return plain


def rooted(items: Sequence[Item], path: Path) -> list[Item]:
    """The items, with the folder that they were in on the command line if its name says much."""
    said = path.name == "submitted" or GITHUB.fullmatch(path.name)
    if not (path.is_dir() and said):
        return list(items)
    return [Item(PurePosixPath(path.name) / each.path, each.file, each.problem) for each in items]


def handed_in(item: Item) -> bool:
    """Whether it can be a submission, or is one that could not be had."""
    return item.path.suffix.lower() in KINDS or bool(item.problem)


def _first(path: PurePosixPath) -> str:
    return path.parts[0] if len(path.parts) > 1 else path.stem


def _common(items: Sequence[Item]) -> str:
    """What the folders' names begin with, up to a hyphen."""
    names = [item.path.parts[0].split("-") for item in items if len(item.path.parts) > 1]
    same: list[str] = []
    for words in zip(*names, strict=False):
        if len(set(words)) > 1:
            break
        same.append(words[0])
    return "-".join(same)


def _text(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(METADATA_BYTES).decode("utf-8", "replace")


def _timestamp(text: str) -> datetime | None:
    """A time as in `2026-02-02 15:58:23.948203 America/Los_Angeles`; None if it is none."""
    found = re.match(r"\s*(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?)\s*(\S*)", text)
    if found is None:
        return None
    try:
        zone = ZoneInfo(found[2]) if found[2] else UTC
        return datetime.fromisoformat(found[1]).replace(tzinfo=zone)
    except (ValueError, OSError, LookupError):
        return None
