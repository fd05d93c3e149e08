"""What a store holds, as frozen records: they need no database."""

import hashlib
from dataclasses import dataclass
from datetime import datetime

from grader.course.intake.gather import SubmittedFile
from grader.course.store.manifest import Manifest
from grader.report.records import SubmissionRecord


@dataclass(frozen=True, slots=True)
class Run:
    """One run, and the settings it was made with."""

    id: int
    name: str
    created: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class FileContent:
    """The bytes of a file, or the reason why there are none; and how to read them."""

    digest: str
    kind: str
    data: bytes | None


@dataclass(frozen=True, slots=True)
class GradedFile:
    """One file of a student, as it stands in a run, with its verdicts."""

    run: int
    student: str
    name: str
    email: str
    handle: str
    file: str
    attempt: int
    late: bool
    submitted: str | None
    content: str
    kind: str
    judged: str
    records: tuple[SubmissionRecord, ...]

    @property
    def submitted_at(self) -> datetime | None:
        """The time of handing in, where it is known."""
        return None if self.submitted is None else datetime.fromisoformat(self.submitted)


@dataclass(frozen=True, slots=True)
class Override:
    """What a person decided that an exercise is worth; no score takes an earlier one back."""

    run: str
    student: str
    exercise: str
    score: float | None
    reason: str
    author: str
    created: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    """What a person wrote; without an exercise about all that was handed in."""

    run: str
    student: str
    exercise: str
    text: str
    author: str
    created: str = ""


def hash_content(data: bytes, kind: str) -> FileContent:
    """A file's bytes under their digest."""
    return FileContent(hashlib.sha256(data).hexdigest(), kind, data)


def make_missing_content(problem: str) -> FileContent:
    """What stands for a file that could not be had: the same for the same reason."""
    return FileContent(
        hashlib.sha256(b"problem\0" + sanitize_text(problem).encode()).hexdigest(), "none", None
    )


def sanitize_text(text: str) -> str:
    """Text that every database takes: neither the character 0 nor halves of surrogate pairs."""
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def compute_submission_key(submitted_file: SubmittedFile) -> str:
    """What makes a file of a run another one: whose it is, which attempt, what it is called."""
    parts = (submitted_file.student.id, str(submitted_file.attempt), submitted_file.file)
    return hashlib.sha256("\0".join(map(sanitize_text, parts)).encode()).hexdigest()
