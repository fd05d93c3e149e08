"""Records of definitions that are judged by claims of their own, beside the attention of a file."""

import time
from collections.abc import Sequence

from headcheck.grader.grading.claims import Finding
from headcheck.grader.grading.excerpts import collect_excerpts
from headcheck.grader.grading.open_mode import SLUG
from headcheck.grader.grading.places.flow import sort_positions
from headcheck.grader.grading.places.wording import name_lines
from headcheck.grader.reading.submission import Submission
from headcheck.grader.report.records import (
    LineRecord,
    NoteRecord,
    PlaceRecord,
    PropertyRecord,
    SubmissionRecord,
    shorten,
)
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.properties.violations.violation import Status, Violation, ViolationKind

POINTS = 10.0
"""the points of one such definition"""
MAX_RECORDS = 8
"""the most definitions of a kind that are judged in one file"""


def record_findings(
    session: Session,
    submission: Submission,
    name: str,
    findings: Sequence[Finding],
    notes: Sequence[str],
    began: float,
) -> SubmissionRecord:
    """Return the record of a definition, whose points claims share, with lines of what is wrong."""
    share = POINTS / len(findings)
    properties = tuple(_record(finding, share) for finding in findings)
    places = sort_positions(at for finding in findings for at in finding.lines)
    holds = all(finding.holds for finding in findings)
    lines = tuple(LineRecord(*place) for place in places)
    return SubmissionRecord(
        file=submission.display_path,
        student=submission.student,
        exercise=SLUG,
        name=name,
        score=POINTS if holds else sum(each.points for each in properties),
        max_score=POINTS,
        status=(Status.PASSED if holds else Status.FAILED).value,
        seconds=time.monotonic() - began,
        properties=properties,
        notes=tuple(NoteRecord("recognised", shorten(text)) for text in notes),
        place=PlaceRecord(f"Look at {name_lines(places)}.", lines) if places else None,
        source=collect_excerpts(session, places),
    )


def _record(finding: Finding, share: float) -> PropertyRecord:
    claim = finding.claim
    given = claim.name, claim.claim, claim.group.value
    if finding.holds:
        return PropertyRecord(*given, Status.PASSED.value, share, share)
    told = finding.expected, finding.got, "", claim.claim, finding.case
    violation = Violation(ViolationKind.VALUE, *told)
    message, words = shorten(str(violation)), shorten(violation.redacted_message)
    case = finding.case or None
    return PropertyRecord(*given, Status.FAILED.value, 0.0, share, message, case, words=words)
