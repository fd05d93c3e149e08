"""A class at a glance: computes the overview in the index of a report and in a dashboard.

Text of submissions is sanitised here and escaped by the templates.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import quantiles

from headcheck.grader.grouped import group_by
from headcheck.grader.report.collation import collate
from headcheck.grader.report.records import (
    NOT_HANDED_IN,
    NOT_JUDGED,
    PropertyRecord,
    SubmissionRecord,
)
from headcheck.grader.report.render.outcome import describe_outcome, find_first_failure, name_ending
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.render.sentences import describe_change
from headcheck.grader.report.render.view import (
    GROUP_ORDER,
    MAX_CODE_LENGTH,
    combine_statuses,
    format_status,
)
from headcheck.properties.violations.violation import Status

WITHOUT_VERDICT = (NOT_JUDGED, NOT_HANDED_IN)
BINS = 10
UNNAMED_PREFIX = "No known mistake explains it. The first check that fails: "


@dataclass(frozen=True, slots=True)
class ClassResult:
    """One result in a class: a record, its name, and the address of its page."""

    record: SubmissionRecord
    label: str
    link: str
    """empty if there is no page"""
    score: float
    """the score that counts, which may differ from the record's"""
    max_score: float


@dataclass(frozen=True, slots=True)
class Member:
    """A student in a group: a name, a link to the report, and the particulars."""

    label: str
    link: str
    details: str = ""


@dataclass(frozen=True, slots=True)
class HistogramBin:
    """The number of results between two shares of the points."""

    label: str
    count: int
    share: float
    """the height as a share of the largest bin"""


@dataclass(frozen=True, slots=True)
class Quartile:
    """A share of the points below which this many results lie, and its position in the bins."""

    text: str
    place: float
    """the position as a share of the width of all bins"""


@dataclass(frozen=True, slots=True)
class Histogram:
    """The distribution of scores; the quartiles are the lower, the median and the upper."""

    bins: tuple[HistogramBin, ...]
    quartiles: tuple[Quartile, ...]
    """empty if there are no scores"""


@dataclass(frozen=True, slots=True)
class MistakeGroup:
    """The students who made the same mistake, and its smallest example."""

    sentence: str
    named: bool
    members: tuple[Member, ...]
    message: str
    code: str


@dataclass(frozen=True, slots=True)
class EndingGroup:
    """The students without an answer for the same reason: a crash, a limit, an unreadable file."""

    reason: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """The outcome of one group of properties: a word for its status, and how many hold."""

    status: str
    text: str


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One result, with a cell for each group of the matrix; None if the result lacks the group."""

    member: Member
    cells: tuple[MatrixCell | None, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Results by groups of properties."""

    groups: tuple[str, ...]
    rows: tuple[MatrixRow, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """The overview of a class."""

    histogram: Histogram
    shared: tuple[MistakeGroup, ...]
    """mistakes of several students, and a single student's mistake if there is just one such"""
    alone: tuple[MistakeGroup, ...]
    """the other mistakes, which nobody else made"""
    endings: tuple[EndingGroup, ...]
    matrix: Matrix


def make_overview(entries: Sequence[ClassResult]) -> Overview:
    """Return the overview of these results; the matrix keeps their order."""
    mistakes = group_mistakes(entries)
    alone = [each for each in mistakes if len(each.members) == 1]
    alone = alone if len(alone) > 1 else []
    return Overview(
        histogram=compute_histogram(entries),
        shared=tuple(each for each in mistakes if each not in alone),
        alone=tuple(alone),
        endings=group_endings(entries),
        matrix=make_matrix(entries),
    )


def compute_histogram(entries: Sequence[ClassResult]) -> Histogram:
    """Return the distribution of scores as shares of the maximum; full scores have a separate bin.

    Where nothing was handed in or judged there is no score, unless somebody set one by hand.
    """
    scored = (each for each in entries if each.score or each.record.status not in WITHOUT_VERDICT)
    shares = [each.score / each.max_score for each in scored if each.max_score]
    return Histogram(_count_bins(shares), _compute_quartiles(shares))


def _compute_quartiles(shares: Sequence[float]) -> tuple[Quartile, ...]:
    if not shares:
        return ()
    found = quantiles(shares, n=4, method="inclusive") if len(shares) > 1 else [shares[0]] * 3
    return tuple(Quartile(f"{100 * each:.0f} %", _place(each)) for each in found)


def _place(share: float) -> float:
    """Return the position of a share in the bins; full points lie in the middle of the last bin."""
    return (share * BINS if share < 1 else BINS + 0.5) / (BINS + 1)


def _count_bins(shares: Iterable[float]) -> tuple[HistogramBin, ...]:
    counts = Counter(min(int(share * BINS), BINS) for share in shares)
    largest = max(counts.values(), default=1)
    labels = [f"{100 * i // BINS}–{100 * (i + 1) // BINS} %" for i in range(BINS)]
    return tuple(
        HistogramBin(label, counts[i], counts[i] / largest)
        for i, label in enumerate([*labels, "all points"])
    )


def group_mistakes(entries: Sequence[ClassResult]) -> tuple[MistakeGroup, ...]:
    """Group the results by mistake, the most frequent first; two mistakes put one in two groups."""
    groups: dict[tuple[bool, str], list[ClassResult]] = {}
    for each in entries:
        for mistake in _list_mistakes(each):
            groups.setdefault(mistake, []).append(each)
    order = sorted(groups, key=lambda key: (-len(groups[key]), key))
    return tuple(_make_mistake_group(key, groups[key]) for key in order)


def group_endings(entries: Sequence[ClassResult]) -> tuple[EndingGroup, ...]:
    """Group the results without an answer by the reason, the most frequent first."""
    groups = group_by(entries, lambda each: name_ending(each.record))
    groups.pop("", None)  # those with an answer
    order = sorted(groups, key=lambda reason: (-len(groups[reason]), reason))
    return tuple(
        EndingGroup(reason, tuple(_make_ending_member(each) for each in _sort(groups[reason])))
        for reason in order
    )


def make_matrix(entries: Sequence[ClassResult]) -> Matrix:
    """Return a row for each result, and a column for each group of properties in any result."""
    found = {p.group for each in entries for p in each.record.properties}
    groups = sorted(found, key=lambda group: (GROUP_ORDER.get(group, len(GROUP_ORDER)), group))
    rows = (MatrixRow(_make_member(each), _make_cells(each.record, groups)) for each in entries)
    return Matrix(tuple(map(format_status, groups)), tuple(rows))


def _sort(entries: Sequence[ClassResult]) -> list[ClassResult]:
    return sorted(entries, key=lambda each: collate(each.label))


def _make_member(entry: ClassResult) -> Member:
    return Member(sanitise_line(entry.label), entry.link)


def _make_ending_member(entry: ClassResult) -> Member:
    """Return a student with the particulars, unless the reason of the group says everything."""
    outcome = " ".join(describe_outcome(entry.record))
    details = "" if outcome == name_ending(entry.record) else outcome
    return Member(sanitise_line(entry.label), entry.link, details)


def _list_mistakes(entry: ClassResult) -> Iterator[tuple[bool, str]]:
    """Yield whether a mistake is a known one, and its sentence."""
    if entry.record.repair is not None:
        change = describe_change(entry.record.repair)
        yield from ((True, f"It stops without one change: {change}."),) if change else ()
    if entry.record.diagnosis:
        yield from ((True, sanitise(each.sentence)) for each in entry.record.diagnosis)
        return
    failure = find_first_failure(entry.record)
    if failure is not None and not name_ending(entry.record):
        yield False, sanitise_line(failure.claim)


def _make_mistake_group(key: tuple[bool, str], entries: Sequence[ClassResult]) -> MistakeGroup:
    named, sentence = key
    failures = [p for each in entries for p in each.record.properties if p.status == Status.FAILED]
    best = min(failures, key=_measure_example, default=None)
    example = best.counterexample if best else None
    return MistakeGroup(
        sentence=sentence if named else f"{UNNAMED_PREFIX}{sentence}",
        named=named,
        members=tuple(map(_make_member, _sort(entries))),
        message=sanitise(best.message) if best else "",
        code=sanitise(example.code, MAX_CODE_LENGTH) if example and example.code else "",
    )


def _measure_example(failure: PropertyRecord) -> tuple[bool, int, int]:
    """Return the sort key for the smallest example: the shortest code, or else message."""
    code = (failure.counterexample.code if failure.counterexample else "") or ""
    return not code, len(code), len(failure.message)


def _make_cells(record: SubmissionRecord, groups: Sequence[str]) -> tuple[MatrixCell | None, ...]:
    if not record.properties:
        status = NOT_JUDGED if record.status == NOT_JUDGED else Status.NOT_TRIED
        return (MatrixCell(format_status(status), "0/0"),) * len(groups)
    members = group_by(record.properties, lambda p: p.group)
    return tuple(_make_cell(members[g]) if g in members else None for g in groups)


def _make_cell(properties: Sequence[PropertyRecord]) -> MatrixCell:
    statuses = [p.status for p in properties]
    return MatrixCell(combine_statuses(statuses), f"{statuses.count('passed')}/{len(statuses)}")
