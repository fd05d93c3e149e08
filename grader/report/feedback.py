"""What a student is told of a report: everything, or less, claim by claim.

A level is a white list: `told` builds new records from the fields that a level names, so that a
field which somebody adds to a record is kept back until it is named here. It is called once, on the
report, before anything is rendered or written.
"""

import difflib
import tomllib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from grader.report.records import (
    Counterexample,
    Excerpt,
    NoteRecord,
    PropertyRecord,
    Report,
    SeedRecord,
    SubmissionRecord,
)
from properties import families
from properties.property import PropertyGroup
from properties.violation import Status

NOT_TRIED_PREFIX = "Not tried, because this did not hold: "
WITHHELD_REASON = "what this rests on did not hold"
STATIC_NOTE_KINDS = (
    "defined_twice",
    "exchanged_names",
    "notebook_variable",
    "prints",
    "renamed_parameters",
    "unregistered",
    "unused_argument",
)
"""notes about the student's own text, which no claim has found"""
PROPERTY_NAMES = frozenset(claim.name for claim in families.ALL)


class FeedbackLevel(StrEnum):
    """How much is told of a claim, from least to most."""

    NAME = "name"
    MESSAGE = "message"
    CASE = "case"
    FULL = "full"

    def includes(self, other: "FeedbackLevel") -> bool:
        """Whether as much is told as at the other level."""
        order = list(FeedbackLevel)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True)
class Feedback:
    """How much a run tells: of every claim, of single ones, and of which nothing at all."""

    level: FeedbackLevel = FeedbackLevel.FULL
    levels: Mapping[str, FeedbackLevel] = field(default_factory=dict)
    """by the names of claims"""
    hidden: frozenset[str] = frozenset()
    """names of claims that are counted and not described"""

    def get_level(self, claim: str) -> FeedbackLevel:
        """How much is told of a claim that is not hidden."""
        return self.levels.get(claim, self.level)


FULL_FEEDBACK = Feedback()


def redact_report(report: Report, feedback: Feedback | None) -> Report:
    """The part of a report that may be told; all of it if nobody says."""
    if feedback is None or feedback == FULL_FEEDBACK:
        return report
    return Report(
        format=report.format,
        headcheck=report.headcheck,
        submissions=tuple(redact_submission(record, feedback) for record in report.submissions),
        sandbox=report.sandbox,
        # Who has the seed can make every case.
        seed=None if report.seed is None else SeedRecord(report.seed.kind, None),
    )


def redact_submission(record: SubmissionRecord, feedback: Feedback) -> SubmissionRecord:
    """The part of one submission's record that may be told.

    The score counts every claim. How long it took depends on all of them, too, and so is not said.
    """
    if feedback == FULL_FEEDBACK:
        return record
    shown = [claim for claim in record.properties if claim.name not in feedback.hidden]
    hidden = len(record.properties) - len(shown)
    worded = [
        c
        for c in shown
        if _has_failed(c) and feedback.get_level(c.name).includes(FeedbackLevel.MESSAGE)
    ]
    diagnosis = record.diagnosis if worded else ()
    places = {(c.cell, c.line) for c in worded} | {(d.cell, d.line) for d in diagnosis}
    return SubmissionRecord(
        file=record.file,
        student=record.student,
        exercise=record.exercise,
        name=record.name,
        score=record.score,
        max_score=record.max_score,
        status=_redact_status(record, shown),
        seconds=0.0,
        properties=tuple(
            _redact_property(each, feedback.get_level(each.name), shown) for each in shown
        ),
        notes=_filter_notes(record.notes, feedback, hidden),
        error=record.error,
        diagnosis=diagnosis,
        source=_filter_source(record, feedback, places),
        hidden=record.hidden + hidden,
    )


def _has_failed(claim: PropertyRecord) -> bool:
    return claim.status not in (Status.PASSED, Status.NOT_TRIED)


def _redact_status(record: SubmissionRecord, shown: Sequence[PropertyRecord]) -> str:
    """The first trouble that is told; a hidden one is no more than a failure."""
    if record.error is not None or record.status in (Status.PASSED, Status.NOT_TRIED):
        return record.status
    return next((claim.status for claim in shown if _has_failed(claim)), Status.FAILED.value)


def _filter_notes(
    notes: Sequence[NoteRecord], feedback: Feedback, hidden: int
) -> tuple[NoteRecord, ...]:
    """What reading the file showed; what judging it showed only where no claim is kept back."""
    open_ = not hidden and feedback.level.includes(FeedbackLevel.MESSAGE)
    return tuple(note for note in notes if open_ or note.kind in STATIC_NOTE_KINDS)


def _filter_source(
    record: SubmissionRecord, feedback: Feedback, places: Container[tuple[int | None, int | None]]
) -> tuple[Excerpt, ...]:
    """The lines that what is told points to, from `case` on: the submission says what they are.

    All of them where nothing was judged, for then it was given nothing that it could tell.
    """
    if record.error is not None:
        return record.source
    if not feedback.level.includes(FeedbackLevel.CASE):
        return ()
    told = [
        replace(each, marked=tuple(line for line in each.marked if (each.cell, line) in places))
        for each in record.source
    ]
    return tuple(each for each in told if each.marked)


def _redact_property(
    claim: PropertyRecord, level: FeedbackLevel, shown: Sequence[PropertyRecord]
) -> PropertyRecord:
    """The fields of a claim that a level names; all of them at the last."""
    message = _redact_message(claim, level, shown)
    words = "" if claim.status == Status.NOT_TRIED else claim.words
    if level is FeedbackLevel.FULL:
        return replace(claim, message=message, words=words)
    said, case = level.includes(FeedbackLevel.MESSAGE), level.includes(FeedbackLevel.CASE)
    found = claim.counterexample
    return PropertyRecord(
        name=claim.name,
        claim=claim.claim,
        group=claim.group,
        status=claim.status,
        points=claim.points,
        max_points=claim.max_points,
        message=message,
        case=claim.case if case else None,
        counterexample=Counterexample(case=found.case) if case and found else None,
        words=words if said else "",
        cell=claim.cell if said else None,
        line=claim.line if said else None,
    )


def _redact_message(
    claim: PropertyRecord, level: FeedbackLevel, shown: Sequence[PropertyRecord]
) -> str:
    if not level.includes(FeedbackLevel.MESSAGE):
        return ""
    if claim.status == Status.NOT_TRIED:
        return _redact_reason(claim.message, shown)
    return claim.message if level.includes(FeedbackLevel.CASE) else claim.words


def _redact_reason(message: str, shown: Sequence[PropertyRecord]) -> str:
    """Why a claim was not tried, if that is another claim which is told."""
    cause = message.removeprefix(NOT_TRIED_PREFIX)
    return message if cause in {claim.claim for claim in shown} else WITHHELD_REASON


# ---------------------------------------------------------------------------- settings


class BadFeedback(Exception):
    """A level or a file of levels that cannot be used; the message says where and why."""


def load_feedback(text: str) -> Feedback:
    """What is meant by a level's name, or by the path of a TOML file that ends in `.toml`.

    Raises BadFeedback.
    """
    if text in list(FeedbackLevel):
        return Feedback(FeedbackLevel(text))
    if not text.endswith(".toml"):
        problem = _describe_unknown(text, list(FeedbackLevel), "level")
        raise BadFeedback(f"--feedback: {problem} (or name a .toml file)")
    try:
        table = tomllib.loads(Path(text).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadFeedback(f"{text}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadFeedback(f"{text}: is not TOML: {error}") from None
    try:
        return parse_table(table)
    except BadFeedback as problem:
        raise BadFeedback(f"{text}: {problem}") from None


def parse_table(table: Mapping[str, Any]) -> Feedback:
    """The settings in a file: `level`, `hidden` and the table `levels`. Raises BadFeedback."""
    for key in table:
        if key not in ("level", "hidden", "levels"):
            raise BadFeedback(_describe_unknown(key, ["level", "hidden", "levels"], "setting"))
    level = _parse_level("level", table.get("level", FeedbackLevel.FULL.value))
    levels, hidden = table.get("levels", {}), table.get("hidden", [])
    if not isinstance(levels, dict):
        raise BadFeedback('levels must be a table: [levels], and below it claim = "level"')
    if not isinstance(hidden, list) or not all(isinstance(name, str) for name in hidden):
        raise BadFeedback('hidden must be a list of names: hidden = ["claim", "group"]')
    given = {name: _parse_level(f"levels.{name}", value) for name, value in levels.items()}
    # A claim's own level goes before that of its group.
    order = sorted(given, key=lambda name: name in PROPERTY_NAMES)
    named = {claim: given[name] for name in order for claim in _expand_name("levels", name)}
    kept_back = frozenset(claim for name in hidden for claim in _expand_name("hidden", name))
    return Feedback(level, named, kept_back)


def _parse_level(where: str, value: object) -> FeedbackLevel:
    if isinstance(value, str) and value in list(FeedbackLevel):
        return FeedbackLevel(value)
    raise BadFeedback(f"{where}: {_describe_unknown(value, list(FeedbackLevel), 'level')}")


def _expand_name(where: str, name: str) -> Sequence[str]:
    """The claims that a name stands for: itself, or all of a group."""
    members = [claim.name for claim in families.ALL if name in (claim.name, claim.group)]
    if members:
        return members
    known = [*PROPERTY_NAMES, *(group.value for group in PropertyGroup)]
    raise BadFeedback(f"{where}: {_describe_unknown(name, known, 'claim or group')}")


def _describe_unknown(value: object, known: Sequence[str], what: str) -> str:
    """There is no such thing, and what may have been meant."""
    close = difflib.get_close_matches(str(value), known, n=3)
    if close:
        return f"there is no {what} {value!r}; did you mean {' or '.join(close)}?"
    listed = f"there are {', '.join(known)}" if len(known) < 10 else "docs/properties.md lists them"
    return f"there is no {what} {value!r}; {listed}"
