"""The mistakes that explain a submission, each with the line of its code to look at."""

import re
from collections.abc import Sequence

from grader.reading.code_patterns import CodePattern
from grader.report.records import DiagnosisRecord
from grader.sandbox.grader_side.session import Session
from grader.sandbox.grader_side.subject import parse_position
from properties.harness.harness import Harness
from properties.mistakes.catalogue import CodeMatcher, Mistake
from properties.mistakes.diagnosis import DiagnosedMistake, diagnose
from properties.property import Verdict
from properties.violation import Status, SubmissionFailed

UNDIAGNOSABLE = (Status.TIMED_OUT, Status.OUT_OF_MEMORY)


def diagnose_failures(
    session: Session, harness: Harness, verdicts: Sequence[Verdict], device: str
) -> tuple[DiagnosedMistake, ...]:
    """What is wrong with a submission that broke a claim, if that is known."""
    ended = {verdict.status for verdict in verdicts}
    if ended <= {Status.PASSED} or ended.intersection(UNDIAGNOSABLE):
        return ()
    try:
        if session.revive():
            harness.forget()
        return diagnose(harness, device)
    except SubmissionFailed:
        return ()


def record_diagnoses(session: Session, found: Sequence[DiagnosedMistake]) -> list[DiagnosisRecord]:
    """Findings for the report, each with its line of the code if it can be told."""
    try:
        marks = session.find_code_patterns() if found else []
    except SubmissionFailed:
        marks = []
    return [record_diagnosis(finding, marks) for finding in found]


def record_diagnosis(
    finding: DiagnosedMistake, landmarks: Sequence[CodePattern]
) -> DiagnosisRecord:
    """A finding for the report; reading the code decides what behaviour leaves open."""
    meant = choose_by_code(finding, landmarks)
    others = finding.indistinguishable if meant is None else ()
    meant = meant or finding.mistake
    at = find_code_pattern(meant, landmarks)
    return DiagnosisRecord(
        name=meant.name,
        sentence=" Or: ".join([meant.sentence, *(other.sentence for other in others)]),
        cell=parse_position(at.cell) if at else None,
        line=parse_position(at.line) if at else None,
        cases_matched=finding.cases_matched,
        cases_tried=finding.cases_tried,
    )


def choose_by_code(finding: DiagnosedMistake, landmarks: Sequence[CodePattern]) -> Mistake | None:
    """The one of several mistakes alike whose most telling mark is in the code."""
    for each in (finding.mistake, *finding.indistinguishable):
        if any(_match_patterns(look, landmarks) for look in each.code_matchers[:1] if look.detail):
            return each
    return None


def find_code_pattern(
    misconception: Mistake, landmarks: Sequence[CodePattern]
) -> CodePattern | None:
    """The line to look at."""
    for look in misconception.code_matchers:
        fitting = _match_patterns(look, landmarks)
        if fitting:
            return fitting[-1 if look.last else 0]
    return None


def _match_patterns(look: CodeMatcher, landmarks: Sequence[CodePattern]) -> list[CodePattern]:
    return [m for m in landmarks if m.kind == look.kind and re.search(look.detail, m.detail[:200])]
