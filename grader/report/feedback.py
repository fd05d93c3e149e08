"""Feedback levels: how much of a report a student receives, property by property.

A level is an allow list: `redact_report` builds new records from the fields that a level names, so
a new field of a record is withheld until it is named here. `redact_report` is called once, on the
report, before anything is rendered or written.
"""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from headcheck.exercises.contract_checks import suggest
from headcheck.exercises.toml_lines import Place
from headcheck.grader import UserError
from headcheck.grader.report.records import (
    Counterexample,
    DiagnosisRecord,
    Excerpt,
    PropertyRecord,
    RepairRecord,
    Report,
    SearchRecord,
    SeedRecord,
    SubmissionRecord,
)
from headcheck.properties.listing.summary import load_summaries
from headcheck.properties.terms.group import PropertyGroup
from headcheck.properties.violations.violation import NOT_FAILED, UNKNOWN, Status

NOT_TRIED_PREFIX = "Not tried, because this check did not pass: "
WITHHELD_REASON = "a check on which this one depends did not pass"
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


class FeedbackLevel(StrEnum):
    """How much is reported about a property, from least to most."""

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
    prints: bool = True
    """whether a failure that is shown with its case is shown with what the submission printed"""

    def get_level(self, name: str) -> FeedbackLevel:
        """Return the level of a property that is not hidden."""
        return self.levels.get(name, self.level)


FULL_FEEDBACK = Feedback()
LEVELS = tuple(level.value for level in FeedbackLevel)


def redact_report(report: Report, feedback: Feedback | None) -> Report:
    """Return the part of a report that may be disclosed; without settings, the whole report."""
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

    The score counts every property. The time, too, depends on all of them.
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
    stops = record.repair is not None and feedback.level.includes(FeedbackLevel.MESSAGE)
    diagnosis = () if not (explained or stops) else _redact_diagnosis(record, explained, feedback)
    if not diagnosis:  # that a property follows from a mistake says that there is a known one
        shown = [replace(p, follows=False) for p in shown]
    place = record.place if _discloses_cases(explained, feedback) else None
    locations = {(p.cell, p.line) for p in explained} | {(d.cell, d.line) for d in diagnosis}
    locations |= {(at.cell, at.line) for at in place.lines} if place is not None else set()
    locations |= {(record.repair.cell, record.repair.line)} if record.repair is not None else set()
    # Without all properties, only the notes from reading the code are shown.
    keep_all = not hidden and feedback.level.includes(FeedbackLevel.MESSAGE)
    notes = tuple(note for note in record.notes if keep_all or note.kind in STATIC_NOTE_KINDS)
    return SubmissionRecord(
        file=record.file,
        student=record.student,
        exercise=record.exercise,
        name=record.name,
        score=record.score,
        max_score=record.max_score,
        status=_redact_status(record, shown),
        seconds=_redact_seconds(record, feedback),
        properties=tuple(
            _redact_property(p, feedback.get_level(p.name), shown, prints=feedback.prints)
            for p in shown
        ),
        notes=notes,
        error=record.error,
        diagnosis=diagnosis,
        place=place,
        source=_filter_source(record, feedback, locations),
        hidden=record.hidden + hidden,
        search=_redact_search(record.search, feedback),
        repair=_redact_repair(record.repair, feedback),
    )


def _redact_diagnosis(
    record: SubmissionRecord, explained: Sequence[PropertyRecord], feedback: Feedback
) -> tuple[DiagnosisRecord, ...]:
    """Return the mistakes that explain a failure, with numbers and lines from `case` on."""
    stops = record.repair is not None and feedback.level.includes(FeedbackLevel.CASE)
    if stops or _discloses_cases(explained, feedback):
        return record.diagnosis
    return tuple(replace(each, example=None, cell=None, line=None) for each in record.diagnosis)


def _discloses_cases(explained: Sequence[PropertyRecord], feedback: Feedback) -> bool:
    """Whether the cases of some failure may be disclosed, and with them the lines of a mistake."""
    return any(feedback.get_level(p.name).includes(FeedbackLevel.CASE) for p in explained)


def _redact_seconds(record: SubmissionRecord, feedback: Feedback) -> float:
    """Return the time of a submission, in whole seconds if the inputs of a property are withheld.

    A submission may make its time depend on its inputs. Whole seconds tell next to nothing of them.
    If a property or what was printed is hidden, the time is 0.
    """
    names = {p.name for p in record.properties}
    if feedback.hidden & names or not feedback.prints:
        return 0.0
    tells_inputs = all(feedback.get_level(name).includes(FeedbackLevel.CASE) for name in names)
    return record.seconds if tells_inputs else float(math.ceil(record.seconds))


def _redact_repair(repair: RepairRecord | None, feedback: Feedback) -> RepairRecord | None:
    """Return the place of a change; its code only with everything, and why from `case` on."""
    if repair is None:
        return None
    full, case = feedback.level is FeedbackLevel.FULL, feedback.level.includes(FeedbackLevel.CASE)
    return RepairRecord(
        cell=repair.cell,
        line=repair.line,
        stopped=repair.stopped if case else "",
        before=repair.before if full else "",
        after=repair.after if full else "",
        price=repair.price,
        at_head=repair.at_head,
    )


def _redact_search(search: SearchRecord | None, feedback: Feedback) -> SearchRecord | None:
    """Return how many cases were tried, and which of the shown properties failed there."""
    if search is None:
        return None
    found = tuple(name for name in search.found if name not in feedback.hidden)
    # The number tells when the last of all properties failed, so it is withheld with any of them.
    cases = 0 if feedback.hidden else search.cases
    return SearchRecord(cases=cases, found=found, stopped=search.stopped)


def _has_failed(prop: PropertyRecord) -> bool:
    return prop.status not in NOT_FAILED


def _redact_status(record: SubmissionRecord, shown: Sequence[PropertyRecord]) -> str:
    """Return the status of the first disclosed failure; a hidden one becomes a mere `failed`."""
    known = record.error is not None or record.repair is not None
    if known or record.status in (*NOT_FAILED, Status.FAILED):
        return record.status
    return next((prop.status for prop in shown if _has_failed(prop)), Status.FAILED.value)


def _filter_source(
    record: SubmissionRecord,
    feedback: Feedback,
    locations: Container[tuple[int | None, int | None]],
) -> tuple[Excerpt, ...]:
    """Keep the excerpts at disclosed locations, from level `case` on.

    The submission chooses the text of the excerpts, so it could leak a case in them. All excerpts
    are kept if nothing was graded, because then the submission has not received any case.
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
    prop: PropertyRecord,
    level: FeedbackLevel,
    shown: Sequence[PropertyRecord],
    *,
    prints: bool,
) -> PropertyRecord:
    """Return the fields of a property that a level names; at the highest level, all fields."""
    message = _redact_message(prop, level, shown)
    words = "" if prop.status in UNKNOWN else prop.words
    printed = prop.printed if prints else ""
    if level is FeedbackLevel.FULL:
        return replace(prop, message=message, words=words, printed=printed)
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
        printed=printed if with_case else "",
        asked=prop.asked,
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
    if prop.status == Status.NOT_ASKED:  # it names limits, which are known
        return prop.message
    return prop.message if level.includes(FeedbackLevel.CASE) else prop.words


# ---------------------------------------------------------------------------- settings


class BadFeedback(UserError):
    """A word that is not a feedback level; the message lists the levels."""


def parse_level(word: str) -> Feedback:
    """Return the feedback of a level, by its name. Raises BadFeedback."""
    if word in list(FeedbackLevel):
        return Feedback(FeedbackLevel(word))
    advice = "levels of single checks are for a course file, and --course"
    raise BadFeedback(f"--feedback: there is no level {word!r}; {advice}; {suggest(word, LEVELS)}")


def read_feedback(value: object, place: Place) -> Feedback:
    """Return the feedback of a course file: a level, or a table.

    Raises the type of error that `place` defines.
    """
    if not isinstance(value, dict):
        return Feedback(_read_level(value, place))
    settings = ("level", "hidden", "levels", "prints")
    for key in value:
        if key not in settings:
            raise place.enter(key).fail(f"there is no key {key!r}; {suggest(key, settings)}")
    level = _read_level(value.get("level", FeedbackLevel.FULL.value), place.enter("level"))
    levels = _read_levels(value.get("levels", {}), place.enter("levels"))
    hidden = _read_hidden(value.get("hidden", []), place.enter("hidden"))
    prints = value.get("prints", True)
    if not isinstance(prints, bool):
        raise place.enter("prints").fail_type(prints, "true or false")
    return Feedback(level, levels, hidden, prints)


def _read_levels(value: object, place: Place) -> Mapping[str, FeedbackLevel]:
    if not isinstance(value, dict):
        raise place.fail_type(value, "a table")
    parsed = {name: _read_level(each, place.enter(name)) for name, each in value.items()}
    # A property's own level takes precedence over that of its group, so it comes last.
    names = _list_names()
    order = sorted(parsed, key=lambda name: name in names)
    return {prop: parsed[name] for name in order for prop in _expand_name(name, place.enter(name))}


def _read_hidden(value: object, place: Place) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise place.fail_type(value, 'a list of names, as in ["dropout"]')
    return frozenset(prop for name in value for prop in _expand_name(name, place))


def _read_level(value: object, place: Place) -> FeedbackLevel:
    if isinstance(value, str) and value in LEVELS:
        return FeedbackLevel(value)
    raise place.fail(f"there is no level {value!r}; {suggest(value, LEVELS)}")


def _list_names() -> frozenset[str]:
    return frozenset(prop.name for prop in load_summaries())


def _expand_name(name: str, place: Place) -> Sequence[str]:
    """Return the names of the properties that a name stands for: itself, or all of a group."""
    members = [prop.name for prop in load_summaries() if name in (prop.name, prop.group)]
    if members:
        return members
    known = (*_list_names(), *(group.value for group in PropertyGroup))
    close = suggest(name, known)
    listed = close if close.startswith("did") else "docs/properties.md lists them"
    raise place.fail(f"there is no check or group {name!r}; {listed}", name)


def bind_feedback(wanted: Feedback | None, binding: Feedback) -> Feedback:
    """Return the feedback for somebody who may ask for less than a limit, but not for more."""
    if wanted is None:
        return binding
    names = wanted.levels.keys() | binding.levels.keys()
    return Feedback(
        _get_lower(wanted.level, binding.level),
        {name: _get_lower(wanted.get_level(name), binding.get_level(name)) for name in names},
        wanted.hidden | binding.hidden,
        wanted.prints and binding.prints,
    )


def tells_more(wanted: Feedback, binding: Feedback) -> bool:
    """Whether somebody asks for more about a property than their limit allows."""
    hides = bool(binding.hidden) and wanted == FULL_FEEDBACK
    return hides or any(
        not binding.get_level(name).includes(wanted.get_level(name))
        for name in _list_names() - binding.hidden
    )


def _get_lower(one: FeedbackLevel, other: FeedbackLevel) -> FeedbackLevel:
    return one if other.includes(one) else other
