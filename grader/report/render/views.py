"""The displayed parts of submissions: sanitised texts, for all renderers."""

from collections.abc import Sequence
from dataclasses import dataclass

from headcheck.grader.report.records import EvidenceRecord
from headcheck.grader.report.render.diagnosis_view import DiagnosisView
from headcheck.properties.counting import count

PROBED = frozenset({"weights", "scale", "heads"})
"""the groups whose checks other mistakes may disturb"""


@dataclass(frozen=True, slots=True)
class FailureView:
    """A failed property, and the number of others with the same outcome."""

    heading: str
    """the outcome and the claim"""
    claim: str
    status: str
    details: str
    case: str = ""
    code: str = ""
    alike: int = 0
    evidence: EvidenceRecord | None = None
    follows: bool = False
    """whether the failure follows from the diagnosed mistakes"""
    printed: tuple[str, ...] = ()
    """the lines that the submission printed on the case"""
    hint: str = ""
    """the hint among the details"""


@dataclass(frozen=True, slots=True)
class RepeatedFailures:
    """Properties with the same outcome as another property, whose claim is `why`."""

    why: str
    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupView:
    """The outcomes of the properties of one group."""

    name: str
    score: str
    status: str
    total: int
    passed: tuple[str, ...]
    failures: tuple[FailureView, ...]
    alike: tuple[RepeatedFailures, ...]
    untried: tuple[str, ...]
    unasked: tuple[str, ...]
    """the checks for which no time was left"""


@dataclass(frozen=True, slots=True)
class MessageView:
    """A note or an error, with its location in the submission."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the submission, whether it is marked, and messages about it."""

    number: int
    text: str
    marked: bool = False
    why: tuple[str, ...] = ()
    around: bool = False
    """whether it is marked, and others are that have messages"""


@dataclass(frozen=True, slots=True)
class SourceView:
    """Consecutive lines of a cell or a module."""

    title: str
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True)
class PlaceView:
    """The lines that contain a mistake, in a sentence, and a row of numbers."""

    sentence: str
    rows: tuple[str, ...] = ()
    """the right numbers and the submission's"""


@dataclass(frozen=True, slots=True)
class SubmissionView:
    """The displayed parts of one submission."""

    file: str
    exercise: str
    name: str
    score: str
    share: float
    """the share of the points"""
    status: str
    groups: tuple[GroupView, ...]
    summary: tuple[str, ...]
    short_summary: tuple[str, ...]
    """the same summary with at most one sentence on the checks that were not tried"""
    why_nothing: tuple[str, ...]
    """why passing checks earn no points, if that is the case"""
    error: MessageView | None
    notes: tuple[MessageView, ...]
    repair: tuple[str, ...] = ()
    """how the answer stops, and the change with which it was judged"""
    diagnosis: DiagnosisView | None = None
    place: PlaceView | None = None
    source: tuple[SourceView, ...] = ()

    @property
    def target(self) -> str:
        """The exercise, and the name of the graded definition."""
        return f"{self.exercise} ({self.name})" if self.name else self.exercise

    @property
    def folder(self) -> str:
        """The file's path up to and including its last slash."""
        return self.file[: len(self.file) - len(self.base)]

    @property
    def base(self) -> str:
        """The file's path after its last slash, or the whole path if nothing follows the slash."""
        return self.file.rpartition("/")[2] or self.file

    @property
    def failures(self) -> tuple[FailureView, ...]:
        """The failed properties, in order."""
        return tuple(failure for group in self.groups for failure in group.failures)

    @property
    def consequences(self) -> tuple[FailureView, ...]:
        """The failures that follow from the diagnosed mistakes."""
        return tuple(failure for failure in self.failures if failure.follows)

    @property
    def others(self) -> tuple[FailureView, ...]:
        """The other failures; without a diagnosis, these are all failures."""
        return tuple(failure for failure in self.failures if not failure.follows)

    @property
    def example(self) -> FailureView | None:
        """The consequence that shows the effect of the mistakes.

        For mistakes in the computation the example is a check of values, if one is among the
        consequences, since all such mistakes fail those checks. Otherwise it is the first
        consequence in the group with the most consequences. For other mistakes it is a consequence
        with numbers to draw, or the symptom of the mistakes, which has kept its hint.
        """
        if self.diagnosis is not None and self.diagnosis.any_compared:
            groups = sorted(self.groups, key=_rank_as_example)
            return next((f for group in groups for f in group.failures if f.follows), None)
        known = sorted(self.consequences, key=lambda f: (not f.evidence, not f.hint))
        return next(iter(known), None)

    @property
    def folded(self) -> tuple[FailureView, ...]:
        """The consequences except for the example."""
        return tuple(failure for failure in self.consequences if failure is not self.example)

    @property
    def unexplained(self) -> str:
        """The line above failures that the diagnosis leaves unexplained, if it explains others."""
        if self.diagnosis is None or not (self.consequences and self.others):
            return ""
        number = count_failures(self.others)
        it = "it" if len(self.diagnosis.sentences) == 1 else "them"
        are = "is" if number == 1 else "are"
        return f"{count(number, 'failed check')} {are} not explained by {it}:"


def _rank_as_example(group: GroupView) -> tuple[bool, bool, float]:
    """Return the sort key of groups for the example: widely broken claims come first."""
    return group.name != "values", group.name in PROBED, -_share_of_consequences(group)


def _share_of_consequences(group: GroupView) -> float:
    follows = count_failures([failure for failure in group.failures if failure.follows])
    return follows / group.total if group.total else 0.0


def count_failures(failures: Sequence[FailureView]) -> int:
    """Count failed properties, including those that are collapsed into another one."""
    return sum(1 + failure.alike for failure in failures)
