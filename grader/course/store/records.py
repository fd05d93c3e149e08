"""Frozen records of a store's contents. They need no database: the autograder uses them, too."""

import hashlib
from dataclasses import dataclass
from datetime import datetime

from headcheck.grader.course.intake.gather import SubmittedFile
from headcheck.grader.course.store.manifest import Manifest
from headcheck.grader.report.records import SubmissionRecord


@dataclass(frozen=True, slots=True)
class Run:
    """A run and the settings it was made with."""

    id: int
    name: str
    created: str
    manifest: Manifest
    key: str
    """the manifest's key as an earlier version may have computed it, under which judgements are"""


@dataclass(frozen=True, slots=True)
class FileContent:
    """The bytes of a file and how to read them; if there are no data, it could not be read."""

    digest: str
    kind: str
    data: bytes | None

    @property
    def key(self) -> tuple[str, str]:
        """The key of its judgements under given settings: equal bytes may be of two kinds."""
        return self.digest, self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedFile:
    """A student's current file in a run, with its verdicts. Outside a store the rest is unknown."""

    student: str
    file: str
    kind: str
    records: tuple[SubmissionRecord, ...]
    run: int = 0
    name: str = ""
    email: str = ""
    handle: str = ""
    attempt: int = 1
    late: bool = False
    submitted: str | None = None
    content: str = ""
    judged: str = ""

    @property
    def submitted_at(self) -> datetime | None:
        """The time of submission, if known."""
        return None if self.submitted is None else datetime.fromisoformat(self.submitted)

    @property
    def content_key(self) -> tuple[str, str]:
        """The key of the file's `FileContent`."""
        return self.content, self.kind


@dataclass(frozen=True, slots=True)
class Override:
    """A score decided by a person; None clears an earlier decision."""

    run: str
    student: str
    exercise: str
    score: float | None
    reason: str
    author: str
    created: str = ""
    max_score: float | None = None
    """the maximum when it was decided, of which the score keeps its share; None if not known"""


@dataclass(frozen=True, slots=True)
class Comment:
    """A person's comment; with an empty exercise it is about the whole submission."""

    run: str
    student: str
    exercise: str
    text: str
    author: str
    created: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A person's mark for a criterion of the rubric; without points it clears an earlier one."""

    student: str
    exercise: str
    criterion: str
    points: float | None
    comment: str = ""
    run: str = ""
    author: str = ""
    created: str = ""
    """these three are empty until the mark is stored"""

    @property
    def key(self) -> tuple[str, str, str]:
        """What it marks: the newest mark with the same key counts."""
        return self.student, self.exercise, self.criterion


def hash_content(data: bytes, kind: str) -> FileContent:
    """Return a file's bytes with their digest."""
    return FileContent(hashlib.sha256(data).hexdigest(), kind, data)


def make_missing_content(problem: str) -> FileContent:
    """Return the content of an unreadable file; the same problem gives the same digest."""
    digest = hashlib.sha256(b"problem\0" + sanitize_text(problem).encode()).hexdigest()
    return FileContent(digest, "none", None)


def sanitize_text(text: str) -> str:
    """Replace what a database rejects: the character 0 and halves of surrogate pairs."""
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def compute_submission_key(submitted_file: SubmittedFile) -> str:
    """Return the digest that identifies a file in a run: its student, attempt and name."""
    parts = (submitted_file.student.id, str(submitted_file.attempt), submitted_file.file)
    return hashlib.sha256("\0".join(map(sanitize_text, parts)).encode()).hexdigest()
