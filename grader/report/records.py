"""The records of a report, as they are stored and rendered: format 1 of docs/report-format.md.

All records are frozen and plain, so that reports can be encoded as JSON, compared and rendered by
pure functions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from headcheck.grader import fault
from headcheck.grader.sandbox.isolation import IsolationLevel
from headcheck.grader.seed import Seed
from headcheck.grader.version import get_version as get_version

MAX_TEXT_LENGTH = 4000
"""the maximum length of a text in a report, limited because submissions choose some texts"""
FORMAT_VERSION = 1
NOT_JUDGED = "not_judged"
"""the status of a submission without a verdict, through no fault of its own"""
REPAIRED = "repaired"
"""the status of a submission that stops with an error, and was judged with one change"""
BUSY_KIND = "machine_busy"
"""the kind of error if the machine prevented a submission from being judged"""
NOT_HANDED_IN = "not_handed_in"
"""the status of a student of the roster without a submission"""
DAMAGED_KIND = "damaged"
"""the kind of error if a stored verdict cannot be read"""
NO_VERDICT_KINDS = (fault.ERROR_KIND, BUSY_KIND, DAMAGED_KIND)


@dataclass(frozen=True, slots=True)
class NoteRecord:
    """A remark on a submission that is not a failure."""

    kind: str
    message: str
    cell: int | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """The reason why a submission could not be graded at all."""

    kind: str
    message: str
    cell: int | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Counterexample:
    """The smallest case found that breaks a property, and lines of Python that reproduce it."""

    case: dict[str, str | int | float | bool]
    code: str | None = None


FloatMatrix = tuple[tuple[float | None, ...], ...]
BoolMatrix = tuple[tuple[bool, ...], ...]


@dataclass(frozen=True, slots=True)
class WeightsEvidence:
    """The expected and the actual attention weights of one head on one sequence."""

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
    """Where each number lies after the heads are split or merged: blocks of rows of columns.

    A number is identified by its token, head and channel; an empty tuple means no number.
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
    """The numbers from which figures of a failed property are drawn."""

    weights: WeightsEvidence | None = None
    influence: InfluenceEvidence | None = None
    layouts: tuple[LayoutEvidence, ...] = ()


@dataclass(frozen=True, slots=True)
class PropertyRecord:
    """The verdict on one property."""

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
    follows: bool = False
    printed: str = ""
    asked: float = 1.0


@dataclass(frozen=True, slots=True)
class ExampleRecord:
    """A mistake shown with round numbers: the input of a step, and its right and wrong results.

    A matrix has a row for each token; its numbers are texts, in the form in which they are shown.
    """

    sizes: str
    given: str
    result: str
    before: tuple[tuple[str, ...], ...]
    right: tuple[tuple[str, ...], ...]
    wrong: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class DiagnosisRecord:
    """A known mistake that explains what a submission computes."""

    name: str
    sentence: str
    cell: int | None
    line: int | None
    cases_matched: int
    cases_tried: int
    example: ExampleRecord | None = None


@dataclass(frozen=True, slots=True)
class LineRecord:
    """A line of a cell, or of a module."""

    cell: int | None
    line: int


@dataclass(frozen=True, slots=True)
class PlaceRecord:
    """The lines that contain the mistake, because all that they are given is right.

    The numbers are texts, in the form in which they are shown.
    """

    sentence: str
    lines: tuple[LineRecord, ...]
    case: str | None = None
    of: str | None = None
    """the row whose numbers are shown"""
    right: tuple[str, ...] = ()
    got: tuple[str, ...] = ()

    @property
    def proved(self) -> LineRecord | None:
        """The line of the mistake, if it is known: one of several may be right."""
        return self.lines[0] if len(self.lines) == 1 else None


@dataclass(frozen=True, slots=True)
class RepairRecord:
    """The one change with which an answer that stops was judged."""

    cell: int | None
    line: int
    stopped: str
    """how the answer stops without the change"""
    before: str
    """the code that was replaced; empty if something was only added"""
    after: str
    price: float
    """what the change costs, in percent of the points"""
    at_head: bool = False
    """whether the change stands before all other code, and the line is only the one that stops"""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a submission around the marked ones."""

    cell: int | None
    line: int
    text: str
    marked: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """The results of a search on generated cases, after the fixed cases."""

    cases: int
    found: tuple[str, ...] = ()
    stopped: str = ""


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
    place: PlaceRecord | None = None
    source: tuple[Excerpt, ...] = ()
    hidden: int = 0
    search: SearchRecord | None = None
    repair: RepairRecord | None = None
    only_thorough: int = 0
    """how many more properties a thorough check asks"""


@dataclass(frozen=True, slots=True)
class SandboxRecord:
    """How the submissions of a run were confined."""

    rung: str
    layers: tuple[str, ...]
    summary: str


@dataclass(frozen=True, slots=True)
class SeedRecord:
    """The seed from which the cases of a run were derived."""

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
    """Return the text, or its beginning and its length if it is too long."""
    if len(text) <= MAX_TEXT_LENGTH:
        return text
    return f"{text[:MAX_TEXT_LENGTH]} [… shortened: {len(text)} characters in all]"


def build_report(
    submissions: Sequence[SubmissionRecord],
    level: IsolationLevel | None = None,
    seed: Seed | None = None,
) -> Report:
    """Return this version's report on submissions that ran at this isolation level."""
    sandbox = None if level is None else SandboxRecord(level.name, level.layers, level.summary)
    seed_record = None if seed is None else record_seed(seed)
    return Report(FORMAT_VERSION, get_version(), tuple(submissions), sandbox, seed_record)


def record_seed(seed: Seed) -> SeedRecord:
    """Return the record of a seed."""
    return SeedRecord(seed.kind.value, seed.value)


def to_json(report: Report) -> str:
    """Encode the report as indented JSON; equal reports give equal bytes."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def from_json(text: str | bytes) -> Report:
    """Decode a report. Raises msgspec.ValidationError unless it is in this format."""
    return msgspec.json.decode(text, type=Report, strict=False)


def strip_seconds(report: Report) -> Report:
    """Return the report without its times, so that runs can be compared."""
    return replace(report, submissions=tuple(replace(s, seconds=0.0) for s in report.submissions))


def compute_exit_code(report: Report) -> int:
    """Return 0 if everything passed, 2 if something could not be judged, 1 otherwise."""
    if any(s.status == NOT_JUDGED for s in report.submissions):
        return 2
    return 0 if all(s.status == "passed" for s in report.submissions) else 1
