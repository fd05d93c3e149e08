"""The mistakes that explain a submission, each with the line of its code to look at."""

import re
from collections.abc import Sequence

from grader.reading.code_patterns import Landmark
from grader.report.records import DiagnosisRecord
from grader.sandbox.grader_side.session import Session
from grader.sandbox.grader_side.subject import placed
from properties.harness.harness import Bench
from properties.mistakes.catalogue import Look, Misconception
from properties.mistakes.diagnosis import Finding, diagnose
from properties.property import Verdict
from properties.violation import Status, SubmissionFailed

HOPELESS = (Status.TIMED_OUT, Status.OUT_OF_MEMORY)


def findings(
    session: Session, bench: Bench, verdicts: Sequence[Verdict], device: str
) -> tuple[Finding, ...]:
    """What is wrong with a submission that broke a claim, if that is known."""
    ended = {verdict.status for verdict in verdicts}
    if ended <= {Status.PASSED} or ended.intersection(HOPELESS):
        return ()
    try:
        if session.revive():
            bench.forget()
        return diagnose(bench, device)
    except SubmissionFailed:
        return ()


def named(session: Session, found: Sequence[Finding]) -> list[DiagnosisRecord]:
    """Findings for the report, each with its line of the code if it can be told."""
    try:
        marks = session.landmarks() if found else []
    except SubmissionFailed:
        marks = []
    return [record(finding, marks) for finding in found]


def record(finding: Finding, landmarks: Sequence[Landmark]) -> DiagnosisRecord:
    """A finding for the report; reading the code decides what behaviour leaves open."""
    meant = read(finding, landmarks)
    others = finding.alike if meant is None else ()
    meant = meant or finding.misconception
    at = place(meant, landmarks)
    return DiagnosisRecord(
        name=meant.name,
        sentence=" Or: ".join([meant.sentence, *(other.sentence for other in others)]),
        cell=placed(at.cell) if at else None,
        line=placed(at.line) if at else None,
        cases_matched=finding.matched,
        cases_tried=finding.tried,
    )


def read(finding: Finding, landmarks: Sequence[Landmark]) -> Misconception | None:
    """The one of several mistakes alike whose most telling mark is in the code."""
    for each in (finding.misconception, *finding.alike):
        if any(_fitting(look, landmarks) for look in each.look_for[:1] if look.detail):
            return each
    return None


def place(misconception: Misconception, landmarks: Sequence[Landmark]) -> Landmark | None:
    """The line to look at."""
    for look in misconception.look_for:
        fitting = _fitting(look, landmarks)
        if fitting:
            return fitting[-1 if look.last else 0]
    return None


def _fitting(look: Look, landmarks: Sequence[Landmark]) -> list[Landmark]:
    return [m for m in landmarks if m.kind == look.kind and re.search(look.detail, m.detail[:200])]
