"""What is said about a submission, whoever shows it: nothing twice, and nothing unfit to be shown.

The records of a report hold what a submission wrote; the views hold the same, made harmless.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from grader.report.records import (
    DiagnosisRecord,
    ErrorRecord,
    EvidenceRecord,
    Excerpt,
    NoteRecord,
    PropertyRecord,
    SeedRecord,
    SubmissionRecord,
)
from grader.report.render.sanitise import sanitise, sanitise_line
from grader.seed import SeedKind
from properties.violation import Status, format_location

BECAUSE = "because this did not hold: "
MAX_NOTES = 20
"""how many notes are shown; a submission can cause any number of them"""
MAX_CODE_LENGTH = 20_000
"""how many characters of a counterexample's code are shown"""
MAX_EXCERPTS, MAX_SOURCE_LINES, MAX_SOURCE_LINE_LENGTH = 8, 160, 240
"""how many pieces of source are shown, lines of each, and characters of a line"""


@dataclass(frozen=True, slots=True)
class FailureView:
    """A claim that does not hold, and how many more ended in just the same way."""

    claim: str
    status: str
    details: str
    case: str = ""
    code: str = ""
    alike: int = 0
    evidence: EvidenceRecord | None = None


@dataclass(frozen=True, slots=True)
class RepeatedFailures:
    """Claims with one thing in common, which `why` says."""

    why: str
    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupView:
    """What became of the claims about one thing."""

    name: str
    score: str
    status: str
    total: int
    passed: tuple[str, ...]
    failures: tuple[FailureView, ...]
    alike: tuple[RepeatedFailures, ...]
    untried: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MessageView:
    """A note or an error, with its place in the submission."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class DiagnosisView:
    """The mistakes that explain a submission, and how sure that is."""

    headline: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the submission; `marked` says whether to look at it, `why` what is wrong there."""

    number: int
    text: str
    marked: bool = False
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceView:
    """Neighbouring lines of a cell or a module."""

    title: str
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True)
class SubmissionView:
    """All that is shown of one submission."""

    file: str
    exercise: str
    name: str
    score: str
    status: str
    groups: tuple[GroupView, ...]
    summary: tuple[str, ...]
    error: MessageView | None
    notes: tuple[MessageView, ...]
    diagnosis: DiagnosisView | None = None
    source: tuple[SourceView, ...] = ()

    @property
    def target(self) -> str:
        """What is judged: the exercise, and the name of the definition that answers it."""
        return f"{self.exercise} ({self.name})" if self.name else self.exercise

    @property
    def folder(self) -> str:
        """The part of the file's path that ends with its last slash."""
        return self.file[: len(self.file) - len(self.base)]

    @property
    def base(self) -> str:
        """The file's path after its last slash; all of it if nothing follows."""
        return self.file.rpartition("/")[2] or self.file

    @property
    def failures(self) -> tuple[FailureView, ...]:
        """The claims that do not hold, in order."""
        return tuple(failure for group in self.groups for failure in group.failures)


def make_view(record: SubmissionRecord) -> SubmissionView:
    """What to show of a record."""
    return SubmissionView(
        file=sanitise_line(record.file),
        exercise="no exercise" if record.exercise is None else sanitise_line(record.exercise),
        name=sanitise_line(record.name or ""),
        score=format_points(record.score, record.max_score),
        status=format_status(record.status),
        groups=_view_groups(record.properties),
        summary=_summarise(record),
        error=_view_message(record.error) if record.error else None,
        notes=_view_notes(record.notes),
        diagnosis=_view_diagnosis(record.diagnosis),
        source=tuple(_view_source(excerpt, record) for excerpt in record.source[:MAX_EXCERPTS]),
    )


def format_status(status: str) -> str:
    """A status or kind as it is read."""
    return sanitise_line(status).replace("_", " ")


def format_points(score: float, most: float) -> str:
    """`17.5 / 20`: two decimals at most, and more where what is missing would round away."""
    if not most and not score:
        return "–"
    for places in (2, 4):
        if float(f"{score:.{places}f}") != most or abs(score - most) < 1e-6:
            return f"{_format_number(score, places)} / {_format_number(most, places)}"
    return f"{_format_number(score, 6)} / {_format_number(most, 6)}"


def _format_number(value: float, places: int) -> str:
    text = f"{value:.{places}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def tally_statuses(statuses: Sequence[str]) -> str:
    """`3 submissions: 2 passed, 1 failed`, the most frequent first but for those that passed."""
    counts = Counter(format_status(status) for status in statuses)
    order = sorted(counts, key=lambda status: (status != Status.PASSED, -counts[status], status))
    listed = ", ".join(f"{counts[status]} {status}" for status in order)
    total = f"{len(statuses)} submission{'s' * (len(statuses) != 1)}"
    return f"{total}: {listed}" if listed else total


SEED_PHRASES = {
    SeedKind.PUBLIC: "the public ones, as in every check",
    SeedKind.GIVEN: "of a seed that was given",
    SeedKind.SECRET: "of a secret seed",
}


def describe_cases(seed: SeedRecord) -> str:
    """Who knows the cases. Never the seed itself: students read this, and it may be used again."""
    return SEED_PHRASES[SeedKind(seed.kind)]


def _view_diagnosis(found: Sequence[DiagnosisRecord]) -> DiagnosisView | None:
    if not found:
        return None
    matched, tried = found[0].cases_matched, found[0].cases_tried
    many = "One mistake was found; it explains"
    if len(found) > 1:
        many = f"{'Two' if len(found) == 2 else len(found)} mistakes were found; they explain"
    share = f"all {tried}" if matched == tried else f"{matched} of {tried}"
    sentences = tuple(sanitise(f.sentence) + format_location(f.cell, f.line) for f in found)
    return DiagnosisView(f"{many} the answers to {share} inputs tried:", sentences)


def _view_source(excerpt: Excerpt, record: SubmissionRecord) -> SourceView:
    """Lines of the submission, with what is wrong beside those that it is known of."""
    messages: dict[int, list[str]] = {}
    for found in record.diagnosis:
        if found.cell == excerpt.cell and found.line is not None:
            messages.setdefault(found.line, []).append(sanitise(found.sentence))
    error = record.error
    if error is not None and error.cell == excerpt.cell and error.line is not None:
        messages.setdefault(error.line, []).append(sanitise(error.message))
    marked = set(excerpt.marked)
    lines = excerpt.text[: MAX_SOURCE_LINES * MAX_SOURCE_LINE_LENGTH].split("\n")[:MAX_SOURCE_LINES]
    return SourceView(
        "Your code" if excerpt.cell is None else f"Your code, cell {excerpt.cell}",
        tuple(
            SourceLine(
                n,
                sanitise_line(line.expandtabs(4), MAX_SOURCE_LINE_LENGTH),
                n in marked,
                tuple(messages.get(n, ())),
            )
            for n, line in enumerate(lines, excerpt.line)
        ),
    )


def _view_message(record: NoteRecord | ErrorRecord) -> MessageView:
    text = sanitise(record.message) + format_location(record.cell, record.line)
    return MessageView(format_status(record.kind), text)


def _view_notes(notes: Sequence[NoteRecord]) -> tuple[MessageView, ...]:
    shown = [_view_message(note) for note in notes[:MAX_NOTES]]
    if len(notes) > MAX_NOTES:
        shown.append(MessageView("note", f"and {len(notes) - MAX_NOTES} more notes"))
    return tuple(shown)


def _summarise(record: SubmissionRecord) -> tuple[str, ...]:
    """Sentences about all claims together."""
    return (*_describe_properties(record), *describe_hidden(record.hidden))


def describe_hidden(count: int) -> tuple[str, ...]:
    """A sentence on claims that are counted and not shown, if there are any."""
    if not count:
        return ()
    checks, them = ("checks are", "them") if count > 1 else ("check is", "it")
    return (f"{count} hidden {checks} not shown; the score counts {them}.",)


def _describe_properties(record: SubmissionRecord) -> tuple[str, ...]:
    claims = record.properties
    kept = sum(p.status == Status.PASSED for p in claims)
    if claims and kept == len(claims):
        shown = " that are shown" if record.hidden else ""
        return (f"All {kept} claims{shown} hold." if kept > 1 else "The claim holds.",)
    if not record.score and any(p.max_points for p in claims if p.status == Status.PASSED):
        verbs = "hold, but give" if kept > 1 else "holds, but gives"
        nothing = (
            f"{_format_claim_count(kept)} {verbs} no points yet: "
            "an answer that computes nothing can keep such claims, too."
        )
        return (nothing, *_describe_untried(claims))
    return _describe_untried(claims)


def _describe_untried(claims: Sequence[PropertyRecord]) -> tuple[str, ...]:
    """A sentence for every reason why claims were not tried."""
    untried = {p.claim: p for p in claims if p.status == Status.NOT_TRIED}
    counts = Counter(_find_reason(p, untried) for p in claims if p.status == Status.NOT_TRIED)
    return tuple(
        f"{_format_claim_count(n)} {'were' if n > 1 else 'was'} not tried{sanitise(reason)}"
        for reason, n in counts.items()
    )


def _find_reason(claim: PropertyRecord, untried: dict[str, PropertyRecord]) -> str:
    """Why a claim was not tried. If it waited for one that was not tried, why that was not."""
    seen = set()
    while claim.claim not in seen:
        seen.add(claim.claim)
        _, because, cause = claim.message.partition(BECAUSE)
        if cause not in untried:
            break
        claim = untried[cause]
    if because:
        return f", {because}{cause}"
    return f": {claim.message}" if claim.message else "."


def _format_claim_count(count: int) -> str:
    return f"{count} claim{'s' * (count != 1)}"


def _view_groups(claims: Sequence[PropertyRecord]) -> tuple[GroupView, ...]:
    first = _group_by_outcome(claims)
    members: dict[str, list[PropertyRecord]] = {}
    for claim in claims:
        members.setdefault(claim.group, []).append(claim)
    return tuple(_view_group(name, group, first) for name, group in members.items())


RecordsByOutcome = dict[tuple[str, str], list[PropertyRecord]]


def _group_by_outcome(claims: Sequence[PropertyRecord]) -> RecordsByOutcome:
    """The claims on which the submission itself went wrong, by how it did."""
    ends: RecordsByOutcome = {}
    for claim in claims:
        known = _strip_claim(claim)  # else nothing says that they ended the same way
        if known and claim.status not in (Status.PASSED, Status.FAILED, Status.NOT_TRIED):
            ends.setdefault(_get_outcome(claim), []).append(claim)
    return ends


def _get_outcome(claim: PropertyRecord) -> tuple[str, str]:
    """How a claim ended, whatever the case was."""
    details = _strip_claim(claim)
    return claim.status, details.rpartition("\non ")[0] or details


def _view_group(name: str, claims: Sequence[PropertyRecord], ends: RecordsByOutcome) -> GroupView:
    failures: list[FailureView] = []
    alike: dict[str, list[str]] = {}
    for claim in claims:
        if claim.status in (Status.PASSED, Status.NOT_TRIED):
            continue
        same = ends.get(_get_outcome(claim), [claim])
        if same[0] is claim:
            failures.append(_view_failure(claim, len(same) - 1))
        else:
            alike.setdefault(sanitise_line(same[0].claim), []).append(sanitise_line(claim.claim))
    return GroupView(
        name=format_status(name),
        score=format_points(
            sum(p.points for p in claims), round(sum(p.max_points for p in claims), 6)
        ),
        status=_combine_statuses([p.status for p in claims]),
        total=len(claims),
        passed=_select_by_status(claims, Status.PASSED),
        failures=tuple(failures),
        alike=tuple(RepeatedFailures(why, tuple(same)) for why, same in alike.items()),
        untried=_select_by_status(claims, Status.NOT_TRIED),
    )


def _select_by_status(claims: Sequence[PropertyRecord], status: str) -> tuple[str, ...]:
    return tuple(sanitise_line(p.claim) for p in claims if p.status == status)


def _combine_statuses(statuses: Sequence[str]) -> str:
    """The first trouble; if there is none, whether all were tried."""
    failures = [status for status in statuses if status not in (Status.PASSED, Status.NOT_TRIED)]
    if failures:
        return format_status(failures[0])
    return format_status(Status.NOT_TRIED) if Status.NOT_TRIED in statuses else Status.PASSED


def _view_failure(claim: PropertyRecord, alike: int) -> FailureView:
    shown = claim.counterexample
    case = claim.case or ""
    return FailureView(
        claim=sanitise_line(claim.claim),
        status=format_status(claim.status),
        details=sanitise(_strip_claim(claim)),
        case="" if case in claim.message else sanitise_line(case),
        code=sanitise(shown.code, MAX_CODE_LENGTH) if shown and shown.code else "",
        alike=alike,
        evidence=claim.evidence,
    )


def _strip_claim(claim: PropertyRecord) -> str:
    """The message without the claim on its first line, flush left."""
    first, _, rest = claim.message.partition("\n")
    lines = (rest if first == claim.claim else claim.message).split("\n")
    return "\n".join(line.removeprefix("  ") for line in lines)
