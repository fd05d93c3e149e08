"""Views of submissions, which all renderers use: sanitised, and without repetitions.

The records of a report hold text as a submission wrote it; the views hold it sanitised.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from headcheck.grader.grouped import group_by
from headcheck.grader.reading.excerpts import get_line_limit
from headcheck.grader.report.records import (
    ErrorRecord,
    Excerpt,
    NoteRecord,
    PlaceRecord,
    PropertyRecord,
    SubmissionRecord,
)
from headcheck.grader.report.render.diagnosis_view import list_apart, view_diagnosis
from headcheck.grader.report.render.outcome import ENDINGS, describe_ending, read_heading
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.render.sentences import (
    count_untried,
    describe_hidden,
    describe_properties,
    describe_repair,
    describe_search,
    describe_untried,
)
from headcheck.grader.report.render.views import (
    FailureView,
    GroupView,
    MessageView,
    PlaceView,
    RepeatedFailures,
    SourceLine,
    SourceView,
    SubmissionView,
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

LABELS = frozenset({"expected", "got", "after", "because", "on", "hint"})
"""the labels of the rows of a message"""
GROUP_ORDER = {group.value: place for place, group in enumerate(PropertyGroup)}
MAX_NOTES = 20
"""the most notes that are displayed; a submission can cause any number of them"""
MAX_CODE_LENGTH = 20_000
"""the most characters of a counterexample's code"""
MAX_EXCERPTS, MAX_SOURCE_LENGTH, MAX_SOURCE_LINES = 8, 38_400, 160
"""the most excerpts of source, and the most characters and lines of each"""


ROW = re.compile(r"(\w+)( +)(.*)")
"""a row of a message: its label and its text"""


def describe_broken(number: int, *, more: bool = False, follows: bool = False) -> str:
    """Return a sentence on how many checks fail: more than those above, and for this reason."""
    checks = count(number, "more check" if more else "check")
    return f"{checks} {'fails' if number == 1 else 'fail'}{' for this reason' * follows}"


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
        notes=_view_notes(list_apart(record.notes, record.diagnosis)),
        repair=describe_repair(record.repair),
        diagnosis=view_diagnosis(record.diagnosis, record.place, record.notes),
        place=None if record.place is None else _view_place(record.place),
        source=tuple(_view_source(excerpt, record) for excerpt in record.source[:MAX_EXCERPTS]),
    )


def _view_place(place: PlaceRecord) -> PlaceView:
    of = place.of or ""
    rows = [("right", place.right), ("yours", place.got)] if of else []
    said = (f"{of}, {label}: {'  '.join(numbers)}" for label, numbers in rows)
    sentence = sanitise_line(place.sentence)
    return PlaceView(sentence, tuple(map(sanitise_line, said)))


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
    located = [each for each in list_located(record) if each[1] is not None]
    for cell, number, message in located:
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
                around=bool(located) and n in marked and n not in messages,
            )
            for n, line in enumerate(lines, excerpt.line)
        ),
    )


def list_located(record: SubmissionRecord) -> Iterator[tuple[int | None, int | None, str]]:
    """Yield cells, lines, and the faults there: mistakes, the error, and the first crash."""
    yield from ((d.cell, d.line, d.sentence) for d in record.diagnosis)
    if record.place is not None and record.place.proved is not None and not record.diagnosis:
        yield record.place.proved.cell, record.place.proved.line, record.place.sentence
    if record.repair is not None:
        yield record.repair.cell, record.repair.line, describe_repair(record.repair)[1]
    if record.error is not None:
        yield record.error.cell, record.error.line, record.error.message
    ended = [p for p in reversed(record.properties) if p.status in ENDINGS]
    for (cell, line), p in {(p.cell, p.line): p for p in ended}.items():
        at = format_location(cell, line)
        yield cell, line, describe_ending(p).replace(at, "", 1)


def _view_message(record: NoteRecord | ErrorRecord) -> MessageView:
    text = sanitise(record.message) + format_location(record.cell, record.line)
    return MessageView(format_status(record.kind), text)


def _view_notes(notes: Sequence[NoteRecord]) -> tuple[MessageView, ...]:
    views = [_view_message(note) for note in notes[:MAX_NOTES]]
    if left := len(notes[MAX_NOTES:]):
        views.append(MessageView("note", f"and {count(left, 'more note')}"))
    return tuple(views)


def _view_groups(properties: Sequence[PropertyRecord]) -> tuple[GroupView, ...]:
    ended = (prop for prop in properties if prop.status not in (*NOT_FAILED, Status.FAILED))
    # Without details, outcomes cannot be compared.
    by_outcome = group_by(filter(_strip_claim, ended), _get_outcome)
    ordered = sorted(properties, key=lambda prop: GROUP_ORDER.get(prop.group, len(GROUP_ORDER)))
    groups = group_by(ordered, lambda prop: prop.group)
    return tuple(_view_group(name, members, by_outcome) for name, members in groups.items())


Outcome = tuple[str, str, bool]
RecordsByOutcome = dict[Outcome, list[PropertyRecord]]


def _get_outcome(prop: PropertyRecord) -> Outcome:
    """Return the status and details of a property, without its case, and whether it follows."""
    details = _strip_claim(prop)
    return prop.status, details.rpartition("\non ")[0] or details, prop.follows


def _view_group(
    name: str,
    properties: Sequence[PropertyRecord],
    by_outcome: RecordsByOutcome,
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
            why, claim = (sanitise_line(p.claim) for p in (same[0], prop))
            alike.setdefault(why, []).append(claim)
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
    rows = [_read_row(line) for line in sanitise(_strip_claim(prop)).split("\n")]
    return FailureView(
        heading=read_heading(prop.status, sanitise_line(prop.claim)),
        claim=sanitise_line(prop.claim),
        status=format_status(prop.status),
        details="\n".join(row for _, row, _ in rows),
        case="" if case in prop.message else sanitise_line(case),
        code=sanitise(example.code, MAX_CODE_LENGTH) if example and example.code else "",
        alike=alike,
        evidence=prop.evidence,
        follows=prop.follows,
        printed=tuple(sanitise(prop.printed).expandtabs(4).split("\n")) if prop.printed else (),
        hint=next((text for label, _, text in rows if label == "hint"), ""),
    )


def _read_row(line: str) -> tuple[str, str, str]:
    """Return the label of a row of a message, the row, and its text."""
    match = ROW.fullmatch(line)
    if match is None or match[1] not in LABELS:
        return "", line, ""
    return match[1], line, match[3]


def _strip_claim(prop: PropertyRecord) -> str:
    """Return the message without the claim on its first line, flush left."""
    first, _, rest = prop.message.partition("\n")
    headed = first in (prop.claim, head_check(prop.status, prop.claim))
    lines = (rest if headed else prop.message).split("\n")
    return "\n".join(line.removeprefix("  ") for line in lines)
