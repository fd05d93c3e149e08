"""What is said about a submission, whoever shows it: nothing twice, and nothing unfit to be shown.

The records of a report hold what a submission wrote; the views hold the same, made harmless.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from grader.report.records import (
    DiagnosisRecord,
    ErrorRecord,
    Evidence,
    Excerpt,
    NoteRecord,
    PropertyRecord,
    SeedRecord,
    SubmissionRecord,
)
from grader.report.render.sanitise import harmless, one_line
from grader.seed import Kind
from properties.violation import Status, place

BECAUSE = "because this did not hold: "
NOTES = 20
"""how many notes are shown; a submission can cause any number of them"""
CODE = 20_000
"""how many characters of a counterexample's code are shown"""
EXCERPTS, SOURCE, SOURCE_LINE = 8, 160, 240
"""how many pieces of source are shown, lines of each, and characters of a line"""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A claim that does not hold, and how many more ended in just the same way."""

    claim: str
    status: str
    details: str
    case: str = ""
    code: str = ""
    alike: int = 0
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims with one thing in common, which `why` says."""

    why: str
    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """What became of the claims about one thing."""

    name: str
    score: str
    status: str
    total: int
    passed: tuple[str, ...]
    troubles: tuple[Trouble, ...]
    alike: tuple[Claims, ...]
    untried: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Remark:
    """A note or an error, with its place in the submission."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
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
class Source:
    """Neighbouring lines of a cell or a module."""

    title: str
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True)
class View:
    """All that is shown of one submission."""

    file: str
    exercise: str
    name: str
    score: str
    status: str
    groups: tuple[Group, ...]
    summary: tuple[str, ...]
    error: Remark | None
    notes: tuple[Remark, ...]
    diagnosis: Diagnosis | None = None
    source: tuple[Source, ...] = ()

    @property
    def answers(self) -> str:
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
    def troubles(self) -> tuple[Trouble, ...]:
        """The claims that do not hold, in order."""
        return tuple(trouble for group in self.groups for trouble in group.troubles)


def view(record: SubmissionRecord) -> View:
    """What to show of a record."""
    return View(
        file=one_line(record.file),
        exercise="no exercise" if record.exercise is None else one_line(record.exercise),
        name=one_line(record.name or ""),
        score=points(record.score, record.max_score),
        status=word(record.status),
        groups=_groups(record.properties),
        summary=_summary(record),
        error=_remark(record.error) if record.error else None,
        notes=_notes(record.notes),
        diagnosis=_diagnosis(record.diagnosis),
        source=tuple(_source(excerpt, record) for excerpt in record.source[:EXCERPTS]),
    )


def word(status: str) -> str:
    """A status or kind as it is read."""
    return one_line(status).replace("_", " ")


def points(score: float, most: float) -> str:
    """`17.5 / 20`: two decimals at most, and more where what is missing would round away."""
    if not most and not score:
        return "–"
    for places in (2, 4):
        if float(f"{score:.{places}f}") != most or abs(score - most) < 1e-6:
            return f"{_number(score, places)} / {_number(most, places)}"
    return f"{_number(score, 6)} / {_number(most, 6)}"


def _number(value: float, places: int) -> str:
    text = f"{value:.{places}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def tally(statuses: Sequence[str]) -> str:
    """`3 submissions: 2 passed, 1 failed`, the most frequent first but for those that passed."""
    counts = Counter(word(status) for status in statuses)
    order = sorted(counts, key=lambda status: (status != Status.PASSED, -counts[status], status))
    listed = ", ".join(f"{counts[status]} {status}" for status in order)
    total = f"{len(statuses)} submission{'s' * (len(statuses) != 1)}"
    return f"{total}: {listed}" if listed else total


KNOWN = {
    Kind.PUBLIC: "the public ones, as in every check",
    Kind.GIVEN: "of a seed that was given",
    Kind.SECRET: "of a secret seed",
}


def cases(seed: SeedRecord) -> str:
    """Who knows the cases. Never the seed itself: students read this, and it may be used again."""
    return KNOWN[Kind(seed.kind)]


def _diagnosis(found: Sequence[DiagnosisRecord]) -> Diagnosis | None:
    if not found:
        return None
    matched, tried = found[0].cases_matched, found[0].cases_tried
    many = "One mistake was found; it explains"
    if len(found) > 1:
        many = f"{'Two' if len(found) == 2 else len(found)} mistakes were found; they explain"
    share = f"all {tried}" if matched == tried else f"{matched} of {tried}"
    sentences = tuple(harmless(f.sentence) + place(f.cell, f.line) for f in found)
    return Diagnosis(f"{many} the answers to {share} inputs tried:", sentences)


def _source(excerpt: Excerpt, record: SubmissionRecord) -> Source:
    """Lines of the submission, with what is wrong beside those that it is known of."""
    said: dict[int, list[str]] = {}
    for found in record.diagnosis:
        if found.cell == excerpt.cell and found.line is not None:
            said.setdefault(found.line, []).append(harmless(found.sentence))
    error = record.error
    if error is not None and error.cell == excerpt.cell and error.line is not None:
        said.setdefault(error.line, []).append(harmless(error.message))
    marked = set(excerpt.marked)
    lines = excerpt.text[: SOURCE * SOURCE_LINE].split("\n")[:SOURCE]
    return Source(
        "Your code" if excerpt.cell is None else f"Your code, cell {excerpt.cell}",
        tuple(
            SourceLine(
                n, one_line(line.expandtabs(4), SOURCE_LINE), n in marked, tuple(said.get(n, ()))
            )
            for n, line in enumerate(lines, excerpt.line)
        ),
    )


def _remark(record: NoteRecord | ErrorRecord) -> Remark:
    text = harmless(record.message) + place(record.cell, record.line)
    return Remark(word(record.kind), text)


def _notes(notes: Sequence[NoteRecord]) -> tuple[Remark, ...]:
    shown = [_remark(note) for note in notes[:NOTES]]
    if len(notes) > NOTES:
        shown.append(Remark("note", f"and {len(notes) - NOTES} more notes"))
    return tuple(shown)


def _summary(record: SubmissionRecord) -> tuple[str, ...]:
    """Sentences about all claims together."""
    return (*_about_claims(record), *about_hidden(record.hidden))


def about_hidden(count: int) -> tuple[str, ...]:
    """A sentence on claims that are counted and not shown, if there are any."""
    if not count:
        return ()
    checks, them = ("checks are", "them") if count > 1 else ("check is", "it")
    return (f"{count} hidden {checks} not shown; the score counts {them}.",)


def _about_claims(record: SubmissionRecord) -> tuple[str, ...]:
    claims = record.properties
    kept = sum(p.status == Status.PASSED for p in claims)
    if claims and kept == len(claims):
        shown = " that are shown" if record.hidden else ""
        return (f"All {kept} claims{shown} hold." if kept > 1 else "The claim holds.",)
    if not record.score and any(p.max_points for p in claims if p.status == Status.PASSED):
        verbs = "hold, but give" if kept > 1 else "holds, but gives"
        nothing = (
            f"{_claims(kept)} {verbs} no points yet: "
            "an answer that computes nothing can keep such claims, too."
        )
        return (nothing, *_untried(claims))
    return _untried(claims)


def _untried(claims: Sequence[PropertyRecord]) -> tuple[str, ...]:
    """A sentence for every reason why claims were not tried."""
    untried = {p.claim: p for p in claims if p.status == Status.NOT_TRIED}
    counts = Counter(_reason(p, untried) for p in claims if p.status == Status.NOT_TRIED)
    return tuple(
        f"{_claims(n)} {'were' if n > 1 else 'was'} not tried{harmless(reason)}"
        for reason, n in counts.items()
    )


def _reason(claim: PropertyRecord, untried: dict[str, PropertyRecord]) -> str:
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


def _claims(count: int) -> str:
    return f"{count} claim{'s' * (count != 1)}"


def _groups(claims: Sequence[PropertyRecord]) -> tuple[Group, ...]:
    first = _first_of_each_end(claims)
    members: dict[str, list[PropertyRecord]] = {}
    for claim in claims:
        members.setdefault(claim.group, []).append(claim)
    return tuple(_group(name, group, first) for name, group in members.items())


Ends = dict[tuple[str, str], list[PropertyRecord]]


def _first_of_each_end(claims: Sequence[PropertyRecord]) -> Ends:
    """The claims on which the submission itself went wrong, by how it did."""
    ends: Ends = {}
    for claim in claims:
        known = _details(claim)  # else nothing says that they ended the same way
        if known and claim.status not in (Status.PASSED, Status.FAILED, Status.NOT_TRIED):
            ends.setdefault(_end(claim), []).append(claim)
    return ends


def _end(claim: PropertyRecord) -> tuple[str, str]:
    """How a claim ended, whatever the case was."""
    details = _details(claim)
    return claim.status, details.rpartition("\non ")[0] or details


def _group(name: str, claims: Sequence[PropertyRecord], ends: Ends) -> Group:
    troubles: list[Trouble] = []
    alike: dict[str, list[str]] = {}
    for claim in claims:
        if claim.status in (Status.PASSED, Status.NOT_TRIED):
            continue
        same = ends.get(_end(claim), [claim])
        if same[0] is claim:
            troubles.append(_trouble(claim, len(same) - 1))
        else:
            alike.setdefault(one_line(same[0].claim), []).append(one_line(claim.claim))
    return Group(
        name=word(name),
        score=points(sum(p.points for p in claims), round(sum(p.max_points for p in claims), 6)),
        status=_status([p.status for p in claims]),
        total=len(claims),
        passed=_with(claims, Status.PASSED),
        troubles=tuple(troubles),
        alike=tuple(Claims(why, tuple(same)) for why, same in alike.items()),
        untried=_with(claims, Status.NOT_TRIED),
    )


def _with(claims: Sequence[PropertyRecord], status: str) -> tuple[str, ...]:
    return tuple(one_line(p.claim) for p in claims if p.status == status)


def _status(statuses: Sequence[str]) -> str:
    """The first trouble; if there is none, whether all were tried."""
    troubles = [status for status in statuses if status not in (Status.PASSED, Status.NOT_TRIED)]
    if troubles:
        return word(troubles[0])
    return word(Status.NOT_TRIED) if Status.NOT_TRIED in statuses else Status.PASSED


def _trouble(claim: PropertyRecord, alike: int) -> Trouble:
    shown = claim.counterexample
    case = claim.case or ""
    return Trouble(
        claim=one_line(claim.claim),
        status=word(claim.status),
        details=harmless(_details(claim)),
        case="" if case in claim.message else one_line(case),
        code=harmless(shown.code, CODE) if shown and shown.code else "",
        alike=alike,
        evidence=claim.evidence,
    )


def _details(claim: PropertyRecord) -> str:
    """The message without the claim on its first line, flush left."""
    first, _, rest = claim.message.partition("\n")
    lines = (rest if first == claim.claim else claim.message).split("\n")
    return "\n".join(line.removeprefix("  ") for line in lines)
