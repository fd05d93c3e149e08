"""The record of a verdict, as it is stored and rendered: format 1 of docs/report-format.md.

Everything is frozen and plain, so that a report can be encoded as JSON, compared and rendered by
pure functions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version

import msgspec

from grader import fault
from grader.sandbox.isolation import IsolationLevel
from grader.seed import Seed

MAX_TEXT_LENGTH = 4000
"""how many characters of one text a report carries: a submission chooses some of them"""
FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class NoteRecord:
    """Something worth saying that is no failure."""

    kind: str
    message: str
    cell: int | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """Why a submission could not be judged at all."""

    kind: str
    message: str
    cell: int | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Counterexample:
    """The smallest input found that breaks a claim, and lines of Python that show it."""

    case: dict[str, str | int | float | bool]
    code: str | None = None


FloatMatrix = tuple[tuple[float | None, ...], ...]
BoolMatrix = tuple[tuple[bool, ...], ...]


@dataclass(frozen=True, slots=True)
class WeightsEvidence:
    """The attention weights of one head on one sequence: those that are right, and those got."""

    case: str
    length: int
    of: str
    made: str
    sequence: int
    head: int
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    may_attend: BoolMatrix
    expected: FloatMatrix
    got: FloatMatrix


@dataclass(frozen=True, slots=True)
class InfluenceEvidence:
    """Which outputs of one sequence moved when a token changed: a row for each output."""

    case: str
    length: int
    sequence: int
    tokens: tuple[int, ...]
    may: BoolMatrix
    expected: BoolMatrix
    got: BoolMatrix


@dataclass(frozen=True, slots=True)
class LayoutEvidence:
    """Where each number lies after the heads were split or merged: blocks of rows of columns.

    A number is known by where it should be: its token, head and channel; by nothing where none is.
    """

    step: str
    of: str
    tokens: int
    heads: int
    head_dim: int
    expected: tuple[tuple[tuple[tuple[int, ...], ...], ...], ...]
    got: tuple[tuple[tuple[tuple[int, ...], ...], ...], ...]


@dataclass(frozen=True, slots=True)
class EvidenceRecord:
    """What can be drawn of a claim that does not hold."""

    weights: WeightsEvidence | None = None
    influence: InfluenceEvidence | None = None
    layouts: tuple[LayoutEvidence, ...] = ()


@dataclass(frozen=True, slots=True)
class PropertyRecord:
    """What became of one claim."""

    name: str
    claim: str
    group: str
    status: str
    points: float
    max_points: float
    message: str = ""
    case: str | None = None
    counterexample: Counterexample | None = None
    evidence: EvidenceRecord | None = None
    words: str = ""
    cell: int | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class DiagnosisRecord:
    """A known mistake that explains what a submission computes."""

    name: str
    sentence: str
    cell: int | None
    line: int | None
    cases_matched: int
    cases_tried: int


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a submission around those to look at."""

    cell: int | None
    line: int
    text: str
    marked: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SubmissionRecord:
    """The verdict on one definition of one file for one exercise."""

    file: str
    student: str
    exercise: str | None
    name: str | None
    score: float
    max_score: float
    status: str
    seconds: float
    properties: tuple[PropertyRecord, ...] = ()
    notes: tuple[NoteRecord, ...] = ()
    error: ErrorRecord | None = None
    diagnosis: tuple[DiagnosisRecord, ...] = ()
    source: tuple[Excerpt, ...] = ()
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class SandboxRecord:
    """How well the submissions of a run were confined."""

    rung: str
    layers: tuple[str, ...]
    summary: str


@dataclass(frozen=True, slots=True)
class SeedRecord:
    """What the cases of a run were drawn from."""

    kind: str
    value: int | None


@dataclass(frozen=True, slots=True)
class Report:
    """All verdicts of one run."""

    format: int
    headcheck: str
    submissions: tuple[SubmissionRecord, ...]
    sandbox: SandboxRecord | None = None
    seed: SeedRecord | None = None


def shorten(text: str) -> str:
    """The text, or the beginning of it and how long it was."""
    if len(text) <= MAX_TEXT_LENGTH:
        return text
    return f"{text[:MAX_TEXT_LENGTH]} [… shortened: {len(text)} characters in all]"


def get_version() -> str:
    """The version of the installed distribution."""
    try:
        return version("headcheck")
    except PackageNotFoundError:
        return "unknown (not installed)"


def build_report(
    submissions: Sequence[SubmissionRecord],
    rung: IsolationLevel | None = None,
    seed: Seed | None = None,
) -> Report:
    """A report on these submissions by this version, which ran on this rung of the sandbox."""
    sandbox = None if rung is None else SandboxRecord(rung.name, rung.layers, rung.summary)
    drawn = None if seed is None else record_seed(seed)
    return Report(FORMAT_VERSION, get_version(), tuple(submissions), sandbox, drawn)


def record_seed(seed: Seed) -> SeedRecord:
    """A seed as a report holds it."""
    return SeedRecord(seed.kind.value, seed.value)


def to_json(report: Report) -> str:
    """The report as JSON, indented, the same bytes for the same report."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def from_json(text: str | bytes) -> Report:
    """A report read back. Raises msgspec.ValidationError when it is not in this format."""
    return msgspec.json.decode(text, type=Report, strict=False)


def strip_seconds(report: Report) -> Report:
    """The part of a report that is the same in every run."""
    return replace(report, submissions=tuple(replace(s, seconds=0.0) for s in report.submissions))


def compute_exit_code(report: Report) -> int:
    """0 if everything passed, 1 if not everything did, 2 if headcheck itself went wrong."""
    if any(s.error is not None and s.error.kind == fault.ERROR_KIND for s in report.submissions):
        return 2
    return 0 if all(s.status == "passed" for s in report.submissions) else 1
