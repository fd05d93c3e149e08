"""Diagnose the mistakes of a submission and find the line of code that shows each of them."""

import re
from collections.abc import Sequence
from dataclasses import asdict, replace

from headcheck.grader.grading.places.locate import locate
from headcheck.grader.grading.places.wording import tell_place
from headcheck.grader.reading.code_patterns import CodePattern
from headcheck.grader.report.records import DiagnosisRecord, ExampleRecord, PlaceRecord
from headcheck.grader.sandbox.grader_side.replies import parse_position
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.properties.contracts.contract import Contract, Entry
from headcheck.properties.families.contract import FORM
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue import CodeMatcher, Mistake
from headcheck.properties.mistakes.diagnosis import OF_DROPOUT, RECOGNISERS, diagnose
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake
from headcheck.properties.mistakes.worked_example import work_example
from headcheck.properties.property import Verdict
from headcheck.properties.terms.group import PropertyGroup
from headcheck.properties.violations.violation import (
    NOT_FAILED,
    Status,
    SubmissionFailed,
    ViolationKind,
)

RESULTS = ("first", "second")
"""the names of the two results of an answer that computes two results separately"""
VALUE_GROUPS = (
    PropertyGroup.VALUES,
    PropertyGroup.WEIGHTS,
    PropertyGroup.SCALE,
    PropertyGroup.HEADS,
    PropertyGroup.MASK,
    PropertyGroup.CACHE,
)
"""the groups of properties about the numbers of a result"""
UNDIAGNOSABLE = (Status.TIMED_OUT, Status.OUT_OF_MEMORY)


def diagnose_failures(
    session: Session, harness: Harness, verdicts: Sequence[Verdict], device: str
) -> tuple[DiagnosedMistake, ...]:
    """Return the known mistakes that explain why a submission failed a property."""
    statuses = {verdict.status for verdict in verdicts}
    if statuses <= {Status.PASSED, Status.NOT_ASKED} or statuses.intersection(UNDIAGNOSABLE):
        return ()
    forms = [v.violation for v in verdicts if v.property in FORM and v.violation is not None]
    has_other_shapes = any(each.kind is ViolationKind.SHAPE for each in forms)
    if harness.contract.entry is Entry.BUILDER and has_other_shapes:
        return ()  # what the given class was built with is wrong, and not what it computes
    try:
        if session.revive():
            harness.forget()
        failing = {v.property.group for v in verdicts if v.status not in NOT_FAILED}
        only_dropout = failing == {PropertyGroup.DROPOUT}
        return diagnose(harness, device, OF_DROPOUT if only_dropout else RECOGNISERS)
    except SubmissionFailed:
        return ()


def find_place(
    session: Session,
    harness: Harness,
    verdicts: Sequence[Verdict],
    mistakes: Sequence[DiagnosedMistake],
) -> PlaceRecord | None:
    """Return the lines that contain the mistake, if values are wrong and the lines are known.

    They are wrong if a check of them fails, or a mistake in them is known.
    """
    statuses = {verdict.status for verdict in verdicts}
    of_values = (v for v in verdicts if v.property.group in VALUE_GROUPS)
    failing = [v.case for v in of_values if v.violation is not None and v.case is not None]
    is_wrong = failing or any(each.mistake.variants for each in mistakes)
    if not is_wrong or statuses.intersection(UNDIAGNOSABLE):
        return None
    try:
        if session.revive():
            harness.forget()
        located = locate(harness, failing)
        if session.revive():  # a call that is traced may end the process
            harness.forget()
    except SubmissionFailed:
        return None
    return None if located is None else tell_place(located)


def record_diagnoses(
    session: Session,
    diagnosed: Sequence[DiagnosedMistake],
    contract: Contract,
    place: PlaceRecord | None,
) -> list[DiagnosisRecord]:
    """Return records of mistakes for the report, each with its line of code if known.

    If a function only builds a given class, its mistake is not in the code of that class. The line
    of a single mistake in values is one of the proved place, if that is known.
    """
    is_read = diagnosed and contract.entry is not Entry.BUILDER
    try:
        patterns = session.find_code_patterns() if is_read else []
    except SubmissionFailed:
        patterns = []
    records = [record_diagnosis(each, patterns, contract) for each in diagnosed]
    of_values = [n for n, each in enumerate(diagnosed) if each.mistake.variants]
    if place is not None and contract.entry is not Entry.BUILDER and len(of_values) == 1:
        [at] = of_values
        records[at] = pin_line(records[at], place, patterns)
    return records


def pin_line(
    record: DiagnosisRecord, place: PlaceRecord, patterns: Sequence[CodePattern]
) -> DiagnosisRecord:
    """Return a record with the proved line of a place.

    If there are several, the line of a code pattern counts if it is one of them, or if it is that
    of an argument that is never used.
    """
    told = record.cell, record.line
    if told in [(each.cell, each.line) for each in patterns if each.kind == "unused"]:
        return record
    if place.proved is not None:
        return replace(record, cell=place.proved.cell, line=place.proved.line)
    if told in [(each.cell, each.line) for each in place.lines]:
        return record
    return replace(record, cell=None, line=None)


def record_diagnosis(
    diagnosed: DiagnosedMistake, patterns: Sequence[CodePattern], contract: Contract
) -> DiagnosisRecord:
    """Return the record of a mistake; the code decides between mistakes that behave the same."""
    if diagnosed.output is not None:
        # What serves another result alone is not where the mistake is.
        patterns = [each for each in patterns if each.result in (None, diagnosed.output)]
    chosen = choose_by_code(diagnosed, patterns)
    others = diagnosed.indistinguishable if chosen is None else ()
    mistake = chosen or diagnosed.mistake
    pattern = find_code_pattern(mistake, patterns)
    where = "" if diagnosed.output is None else f"In the {RESULTS[diagnosed.output]} result: "
    example = None if others else work_example(contract, mistake, diagnosed.ways)
    return DiagnosisRecord(
        name=mistake.name,
        sentence=where + " Or: ".join(each.describe(contract) for each in (mistake, *others)),
        cell=parse_position(pattern.cell) if pattern else None,
        line=parse_position(pattern.line) if pattern else None,
        cases_matched=diagnosed.cases_matched,
        cases_tried=diagnosed.cases_tried,
        example=None if example is None else ExampleRecord(**asdict(example)),
    )


def choose_by_code(diagnosed: DiagnosedMistake, patterns: Sequence[CodePattern]) -> Mistake | None:
    """Return the first indistinguishable mistake whose most telling pattern is in the code."""
    for mistake in (diagnosed.mistake, *diagnosed.indistinguishable):
        first = mistake.code_matchers[:1]
        if any(matcher.detail and _match_patterns(matcher, patterns) for matcher in first):
            return mistake
    return None


def find_code_pattern(mistake: Mistake, patterns: Sequence[CodePattern]) -> CodePattern | None:
    """Return the code pattern that shows a mistake, if any."""
    for matcher in mistake.code_matchers:
        matches = _match_patterns(matcher, patterns)
        if len({(m.cell, m.line) for m in matches}) > 1 and matcher.only:
            continue
        if matches:
            return matches[-1 if matcher.last else 0]
    return None


def _match_patterns(matcher: CodeMatcher, patterns: Sequence[CodePattern]) -> list[CodePattern]:
    return [
        pattern
        for pattern in patterns
        if pattern.kind == matcher.kind and re.search(matcher.detail, pattern.detail[:200])
    ]
