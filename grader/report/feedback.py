"""Feedback levels: how much of a report a student receives, property by property.

A level is an allow list: `redact_report` builds new records from the fields that a level names, so
that a field added to a record is withheld until it is named here. It is called once, on the report,
before anything is rendered or written.
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
    DiagnosisRecord,
    Excerpt,
    NoteRecord,
    PropertyRecord,
    Report,
    SearchRecord,
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
    "import",
    "notebook_variable",
    "prints",
    "renamed_parameters",
    "unregistered",
    "unused_argument",
)
"""kinds of notes that come from reading the code, not from checking a property"""
PROPERTY_NAMES = frozenset(prop.name for prop in families.ALL)


class FeedbackLevel(StrEnum):
    """How much is reported of a property, from least to most."""

    NAME = "name"
    MESSAGE = "message"
    CASE = "case"
    FULL = "full"

    def includes(self, other: "FeedbackLevel") -> bool:
        """Whether this level reports at least as much as the other."""
        order = list(FeedbackLevel)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True)
class Feedback:
    """The feedback level of a run, its exceptions, and the hidden properties."""

    level: FeedbackLevel = FeedbackLevel.FULL
    levels: Mapping[str, FeedbackLevel] = field(default_factory=dict)
    """exceptions by the name of a property"""
    hidden: frozenset[str] = frozenset()
    """names of properties that are counted but not described"""

    def get_level(self, name: str) -> FeedbackLevel:
        """Return the level of a property that is not hidden."""
        return self.levels.get(name, self.level)


FULL_FEEDBACK = Feedback()


def redact_report(report: Report, feedback: Feedback | None) -> Report:
    """Return the part of a report that may be disclosed; all of it without settings."""
    if feedback is None or feedback == FULL_FEEDBACK:
        return report
    return Report(
        format=report.format,
        headcheck=report.headcheck,
        submissions=tuple(redact_submission(record, feedback) for record in report.submissions),
        sandbox=report.sandbox,
        # The seed would reveal every case.
        seed=None if report.seed is None else SeedRecord(report.seed.kind, None),
    )


def redact_submission(record: SubmissionRecord, feedback: Feedback) -> SubmissionRecord:
    """Return the part of one submission's record that may be disclosed.

    The score counts every property. The time, too, depends on all of them, so it is withheld.
    """
    if feedback == FULL_FEEDBACK:
        return record
    shown = [p for p in record.properties if p.name not in feedback.hidden]
    hidden = len(record.properties) - len(shown)
    explained = [
        p
        for p in shown
        if _has_failed(p) and feedback.get_level(p.name).includes(FeedbackLevel.MESSAGE)
    ]
    diagnosis = _redact_diagnosis(record.diagnosis, explained, feedback)
    if not diagnosis:  # that a property follows from a mistake says that there is a known one
        shown = [replace(p, follows=False) for p in shown]
    locations = {(p.cell, p.line) for p in explained} | {(d.cell, d.line) for d in diagnosis}
    return SubmissionRecord(
        file=record.file,
        student=record.student,
        exercise=record.exercise,
        name=record.name,
        score=record.score,
        max_score=record.max_score,
        status=_redact_status(record, shown),
        seconds=0.0,
        properties=tuple(_redact_property(p, feedback.get_level(p.name), shown) for p in shown),
        notes=_filter_notes(record.notes, feedback, hidden),
        error=record.error,
        diagnosis=diagnosis,
        source=_filter_source(record, feedback, locations),
        hidden=record.hidden + hidden,
        search=_redact_search(record.search, feedback),
    )


def _redact_diagnosis(
    diagnosis: Sequence[DiagnosisRecord], explained: Sequence[PropertyRecord], feedback: Feedback
) -> tuple[DiagnosisRecord, ...]:
    """Return the mistakes if a failure is explained; with numbers if one is shown with its case."""
    if not explained:
        return ()
    shown = any(feedback.get_level(p.name).includes(FeedbackLevel.CASE) for p in explained)
    return tuple(each if shown else replace(each, example=None) for each in diagnosis)


def _redact_search(search: SearchRecord | None, feedback: Feedback) -> SearchRecord | None:
    """Return how many cases were tried, and which of the properties that are shown failed there."""
    if search is None:
        return None
    found = tuple(name for name in search.found if name not in feedback.hidden)
    # The number tells when the last of all properties failed, so it is withheld with any of them.
    cases = 0 if feedback.hidden else search.cases
    return SearchRecord(cases=cases, found=found, stopped=search.stopped)


def _has_failed(prop: PropertyRecord) -> bool:
    return prop.status not in (Status.PASSED, Status.NOT_TRIED)


def _redact_status(record: SubmissionRecord, shown: Sequence[PropertyRecord]) -> str:
    """Return the first disclosed failure; a hidden one becomes a mere `failed`."""
    if record.error is not None or record.status in (Status.PASSED, Status.NOT_TRIED):
        return record.status
    return next((prop.status for prop in shown if _has_failed(prop)), Status.FAILED.value)


def _filter_notes(
    notes: Sequence[NoteRecord], feedback: Feedback, hidden: int
) -> tuple[NoteRecord, ...]:
    """Keep notes from reading the code, and the others only if no property is withheld."""
    keep_all = not hidden and feedback.level.includes(FeedbackLevel.MESSAGE)
    return tuple(note for note in notes if keep_all or note.kind in STATIC_NOTE_KINDS)


def _filter_source(
    record: SubmissionRecord,
    feedback: Feedback,
    locations: Container[tuple[int | None, int | None]],
) -> tuple[Excerpt, ...]:
    """Keep the excerpts at disclosed locations, from level `case` on.

    The submission chooses their text, so it could leak a case in them. All are kept where nothing
    was graded, because then it has not received any case.
    """
    if record.error is not None:
        return record.source
    if not feedback.level.includes(FeedbackLevel.CASE):
        return ()
    excerpts = [
        replace(each, marked=tuple(line for line in each.marked if (each.cell, line) in locations))
        for each in record.source
    ]
    return tuple(each for each in excerpts if each.marked)


def _redact_property(
    prop: PropertyRecord, level: FeedbackLevel, shown: Sequence[PropertyRecord]
) -> PropertyRecord:
    """Return the fields of a property that a level names; all of them at the highest."""
    message = _redact_message(prop, level, shown)
    words = "" if prop.status == Status.NOT_TRIED else prop.words
    if level is FeedbackLevel.FULL:
        return replace(prop, message=message, words=words)
    explained, with_case = level.includes(FeedbackLevel.MESSAGE), level.includes(FeedbackLevel.CASE)
    example = prop.counterexample
    return PropertyRecord(
        name=prop.name,
        claim=prop.claim,
        group=prop.group,
        status=prop.status,
        points=prop.points,
        max_points=prop.max_points,
        message=message,
        case=prop.case if with_case else None,
        counterexample=Counterexample(case=example.case) if with_case and example else None,
        words=words if explained else "",
        cell=prop.cell if explained else None,
        line=prop.line if explained else None,
        follows=prop.follows,
    )


def _redact_message(
    prop: PropertyRecord, level: FeedbackLevel, shown: Sequence[PropertyRecord]
) -> str:
    if not level.includes(FeedbackLevel.MESSAGE):
        return ""
    if prop.status == Status.NOT_TRIED:
        # The reason is the claim of another property, which may itself be hidden.
        cause = prop.message.removeprefix(NOT_TRIED_PREFIX)
        return prop.message if cause in {p.claim for p in shown} else WITHHELD_REASON
    return prop.message if level.includes(FeedbackLevel.CASE) else prop.words


# ---------------------------------------------------------------------------- settings


class BadFeedback(Exception):
    """An invalid level or file of levels; the message says where and why."""


def load_feedback(text: str) -> Feedback:
    """Parse the name of a level, or read a TOML file, whose path ends in `.toml`.

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
    """Parse the settings in a file: `level`, `hidden` and table `levels`. Raises BadFeedback."""
    settings = ["level", "hidden", "levels"]
    for key in table:
        if key not in settings:
            raise BadFeedback(_describe_unknown(key, settings, "setting"))
    level = _parse_level("level", table.get("level", FeedbackLevel.FULL.value))
    levels, hidden = table.get("levels", {}), table.get("hidden", [])
    if not isinstance(levels, dict):
        raise BadFeedback('levels must be a table: [levels], and below it check = "level"')
    if not isinstance(hidden, list) or not all(isinstance(name, str) for name in hidden):
        raise BadFeedback('hidden must be a list of names: hidden = ["check", "group"]')
    parsed = {name: _parse_level(f"levels.{name}", value) for name, value in levels.items()}
    # A property's own level takes precedence over that of its group, so it comes last.
    order = sorted(parsed, key=lambda name: name in PROPERTY_NAMES)
    by_property = {prop: parsed[name] for name in order for prop in _expand_name("levels", name)}
    withheld = frozenset(prop for name in hidden for prop in _expand_name("hidden", name))
    return Feedback(level, by_property, withheld)


def _parse_level(where: str, value: object) -> FeedbackLevel:
    if isinstance(value, str) and value in list(FeedbackLevel):
        return FeedbackLevel(value)
    raise BadFeedback(f"{where}: {_describe_unknown(value, list(FeedbackLevel), 'level')}")


def _expand_name(where: str, name: str) -> Sequence[str]:
    """Return the names of the properties that a name stands for: one, or all of a group."""
    members = [prop.name for prop in families.ALL if name in (prop.name, prop.group)]
    if members:
        return members
    known = [*PROPERTY_NAMES, *(group.value for group in PropertyGroup)]
    raise BadFeedback(f"{where}: {_describe_unknown(name, known, 'check or group')}")


def _describe_unknown(value: object, known: Sequence[str], what: str) -> str:
    """Describe an unknown value, with suggestions."""
    close = difflib.get_close_matches(str(value), known, n=3)
    if close:
        return f"there is no {what} {value!r}; did you mean {' or '.join(close)}?"
    listed = f"there are {', '.join(known)}" if len(known) < 10 else "docs/properties.md lists them"
    return f"there is no {what} {value!r}; {listed}"
