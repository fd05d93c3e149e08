"""Views of submissions, which all renderers use: sanitised, and without repetitions.

The records of a report hold text as a submission wrote it; the views hold it sanitised.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headcheck.grader.reading.excerpts import get_line_limit
from headcheck.grader.report.records import (
    ErrorRecord,
    EvidenceRecord,
    Excerpt,
    NoteRecord,
    PlaceRecord,
    PropertyRecord,
    SubmissionRecord,
)
from headcheck.grader.report.render.diagnosis_view import DiagnosisView, view_diagnosis
from headcheck.grader.report.render.outcome import ENDINGS, describe_ending
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.render.sentences import (
    count_untried,
    describe_hidden,
    describe_properties,
    describe_repair,
    describe_search,
    describe_untried,
)
from headcheck.grader.report.rounding import format_number, round_points
from headcheck.properties.counting import count
from headcheck.properties.terms.group import PropertyGroup
from headcheck.properties.violations.violation import (
    NOT_FAILED,
    UNKNOWN,
    Status,
    format_location,
    head_check,
)

GROUP_ORDER = {group.value: place for place, group in enumerate(PropertyGroup)}
MAX_NOTES = 20
"""the most notes that are displayed; a submission can cause any number of them"""
MAX_CODE_LENGTH = 20_000
"""the most characters of a counterexample's code"""
PROBED = frozenset({"weights", "scale", "heads"})
"""the groups whose checks other mistakes may disturb"""
MAX_EXCERPTS, MAX_SOURCE_LENGTH, MAX_SOURCE_LINES = 8, 38_400, 160
"""the most excerpts of source, and the most characters and lines of each"""


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
            ordered = [f for group in groups for f in group.failures if f.follows]
            return next(iter(ordered), None)
        known = sorted(self.consequences, key=lambda f: HINT_ROW not in f.details)
        return next(iter([*(f for f in known if f.evidence), *known]), None)

    @property
    def folded(self) -> tuple[FailureView, ...]:
        """The consequences except for the example."""
        return tuple(failure for failure in self.consequences if failure is not self.example)

    @property
    def unexplained(self) -> str:
        """The line above failures that the diagnosis leaves unexplained, if it explains others."""
        if self.diagnosis is None or not (self.consequences and self.others):
            return ""
        count = count_failures(self.others)
        verb = "failed check is" if count == 1 else "failed checks are"
        return f"{count} {verb} not explained by {self.diagnosis.pronoun}:"


HINT_ROW = f"{'hint':<9} "
"""the label of the hint among the rows of a message"""


def _rank_as_example(group: GroupView) -> tuple[bool, bool, float]:
    """Return the sort key of groups for the example: widely broken claims come first."""
    return group.name != "values", group.name in PROBED, -_share_of_consequences(group)


def _share_of_consequences(group: GroupView) -> float:
    follows = count_failures([failure for failure in group.failures if failure.follows])
    return follows / group.total if group.total else 0.0


def count_failures(failures: Sequence[FailureView]) -> int:
    """Count failed properties, including those that are collapsed into another one."""
    return sum(1 + failure.alike for failure in failures)


def describe_broken(count: int, also: str = "", reason: str = "") -> str:
    """Return a sentence on how many checks fail, with " more" if others precede, and the reason."""
    verb = "check fails" if count == 1 else "checks fail"
    return f"{count}{also} {verb}{reason}"


def make_view(record: SubmissionRecord) -> SubmissionView:
    """Return the view of a record."""
    whole = describe_properties(record)
    others = (*describe_search(record), *describe_hidden(record.hidden))
    return SubmissionView(
        file=sanitise_line(record.file),
        exercise="no exercise" if record.exercise is None else sanitise_line(record.exercise),
        name=sanitise_line(record.name or ""),
        score=format_points(record.score, record.max_score),
        share=record.score / record.max_score if record.max_score else 0.0,
        status=format_status(record.status),
        groups=_view_groups(record.properties),
        summary=(*whole, *describe_untried(record.properties), *others),
        short_summary=(*whole, *count_untried(record.properties), *others),
        why_nothing=() if record.score else whole,
        error=_view_message(record.error) if record.error else None,
        notes=_view_notes(record.notes),
        repair=describe_repair(record.repair),
        diagnosis=view_diagnosis(record.diagnosis),
        place=None if record.place is None else _view_place(record.place),
        source=tuple(_view_source(excerpt, record) for excerpt in record.source[:MAX_EXCERPTS]),
    )


def _view_place(place: PlaceRecord) -> PlaceView:
    rows = [("right", place.right), ("yours", place.got)] if place.of else []
    said = (f"{place.of}, {label}: {'  '.join(numbers)}" for label, numbers in rows)
    return PlaceView(sanitise_line(place.sentence), tuple(map(sanitise_line, said)))


def format_status(status: str) -> str:
    """Format a status or kind for display."""
    return sanitise_line(status).replace("_", " ")


def format_points(score: float, maximum: float) -> str:
    """Format `17.5 / 20`, in hundredths at most; only full points are the maximum."""
    if not maximum and not score:
        return "–"
    return f"{format_number(round_points(score, maximum))} / {format_number(maximum)}"


def tally_statuses(statuses: Sequence[str]) -> str:
    """Format `3 results: 2 passed, 1 failed`: passed first, then by frequency.

    A file with several answers has several results.
    """
    counts = Counter(format_status(status) for status in statuses)
    order = sorted(counts, key=lambda status: (status != Status.PASSED, -counts[status], status))
    listed = ", ".join(f"{counts[status]} {status}" for status in order)
    total = count(len(statuses), "result")
    return f"{total}: {listed}" if listed else total


def _view_source(excerpt: Excerpt, record: SubmissionRecord) -> SourceView:
    """Return the lines of an excerpt, with the faults next to the marked lines."""
    messages: dict[int, list[str]] = {}
    for cell, number, message in list_located(record):
        if cell == excerpt.cell and number is not None:
            messages.setdefault(number, []).append(sanitise(message))
    marked = set(excerpt.marked)
    lines = excerpt.text[:MAX_SOURCE_LENGTH].split("\n")[:MAX_SOURCE_LINES]
    return SourceView(
        "Your code" if excerpt.cell is None else f"Your code, cell {excerpt.cell}",
        tuple(
            SourceLine(
                n,
                sanitise_line(line.expandtabs(4), get_line_limit(is_marked=n in marked)),
                n in marked,
                tuple(messages.get(n, ())),
            )
            for n, line in enumerate(lines, excerpt.line)
        ),
    )


def list_located(record: SubmissionRecord) -> Iterator[tuple[int | None, int | None, str]]:
    """Yield cells, lines, and the faults there: mistakes, the error, and the first crash."""
    yield from ((d.cell, d.line, d.sentence) for d in record.diagnosis)
    if record.place is not None and not record.diagnosis:
        yield from ((at.cell, at.line, record.place.sentence) for at in record.place.lines[-1:])
    if record.repair is not None:
        yield record.repair.cell, record.repair.line, describe_repair(record.repair)[1]
    if record.error is not None:
        yield record.error.cell, record.error.line, record.error.message
    ended = [p for p in reversed(record.properties) if p.status in ENDINGS]
    for (cell, line), p in {(p.cell, p.line): p for p in ended}.items():
        yield cell, line, describe_ending(p).replace(format_location(cell, line), "", 1)


def _view_message(record: NoteRecord | ErrorRecord) -> MessageView:
    text = sanitise(record.message) + format_location(record.cell, record.line)
    return MessageView(format_status(record.kind), text)


def _view_notes(notes: Sequence[NoteRecord]) -> tuple[MessageView, ...]:
    views = [_view_message(note) for note in notes[:MAX_NOTES]]
    if len(notes) > MAX_NOTES:
        views.append(MessageView("note", f"and {count(len(notes) - MAX_NOTES, 'more note')}"))
    return tuple(views)


def _view_groups(properties: Sequence[PropertyRecord]) -> tuple[GroupView, ...]:
    by_outcome = _group_by_outcome(properties)
    groups: dict[str, list[PropertyRecord]] = {}
    for prop in sorted(properties, key=lambda prop: GROUP_ORDER.get(prop.group, len(GROUP_ORDER))):
        groups.setdefault(prop.group, []).append(prop)
    return tuple(_view_group(name, members, by_outcome) for name, members in groups.items())


Outcome = tuple[str, str, bool]
RecordsByOutcome = dict[Outcome, list[PropertyRecord]]


def _group_by_outcome(properties: Sequence[PropertyRecord]) -> RecordsByOutcome:
    """Group the properties on which the submission crashed or exceeded a limit by their outcome."""
    groups: RecordsByOutcome = {}
    for prop in properties:
        details = _strip_claim(prop)  # without details, outcomes cannot be compared
        if details and prop.status not in (*NOT_FAILED, Status.FAILED):
            groups.setdefault(_get_outcome(prop), []).append(prop)
    return groups


def _get_outcome(prop: PropertyRecord) -> Outcome:
    """Return the status and details of a property, without its case, and whether it follows."""
    details = _strip_claim(prop)
    return prop.status, details.rpartition("\non ")[0] or details, prop.follows


def _view_group(
    name: str, properties: Sequence[PropertyRecord], by_outcome: RecordsByOutcome
) -> GroupView:
    failures: list[FailureView] = []
    alike: dict[str, list[str]] = {}
    for prop in properties:
        if prop.status in NOT_FAILED:
            continue
        same = by_outcome.get(_get_outcome(prop), [prop])
        if same[0] is prop:
            failures.append(_view_failure(prop, len(same) - 1))
        else:
            alike.setdefault(sanitise_line(same[0].claim), []).append(sanitise_line(prop.claim))
    score, maximum = sum(p.points for p in properties), sum(p.max_points for p in properties)
    return GroupView(
        name=format_status(name),
        score=format_points(score, maximum),
        status=combine_statuses([p.status for p in properties]),
        total=len(properties),
        passed=_select_by_status(properties, Status.PASSED),
        failures=tuple(failures),
        alike=tuple(RepeatedFailures(why, tuple(same)) for why, same in alike.items()),
        untried=_select_by_status(properties, Status.NOT_TRIED),
        unasked=_select_by_status(properties, Status.NOT_ASKED),
    )


def _select_by_status(properties: Sequence[PropertyRecord], status: str) -> tuple[str, ...]:
    return tuple(sanitise_line(p.claim) for p in properties if p.status == status)


def combine_statuses(statuses: Sequence[str]) -> str:
    """Return the first failure; if there is none, whether all properties were tried."""
    failures = [status for status in statuses if status not in NOT_FAILED]
    unknown = [status for status in UNKNOWN if status in statuses]
    return format_status([*failures, *unknown, Status.PASSED][0])


def _view_failure(prop: PropertyRecord, alike: int) -> FailureView:
    example = prop.counterexample
    case = prop.case or ""
    return FailureView(
        heading=head_check(prop.status, sanitise_line(prop.claim)),
        claim=sanitise_line(prop.claim),
        status=format_status(prop.status),
        details=sanitise(_strip_claim(prop)),
        case="" if case in prop.message else sanitise_line(case),
        code=sanitise(example.code, MAX_CODE_LENGTH) if example and example.code else "",
        alike=alike,
        evidence=prop.evidence,
        follows=prop.follows,
        printed=tuple(sanitise(prop.printed).expandtabs(4).split("\n")) if prop.printed else (),
    )


def _strip_claim(prop: PropertyRecord) -> str:
    """Return the message without the claim on its first line, flush left."""
    first, _, rest = prop.message.partition("\n")
    headed = first in (prop.claim, head_check(prop.status, prop.claim))
    lines = (rest if headed else prop.message).split("\n")
    return "\n".join(line.removeprefix("  ") for line in lines)
