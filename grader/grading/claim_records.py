"""Records of definitions that are judged by claims of their own, beside the attention of a file."""

import time
from collections.abc import Sequence

from headcheck.grader.grading.claims import JudgedClaim
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
    judged_claims: Sequence[JudgedClaim],
    notes: Sequence[str],
    began: float,
) -> SubmissionRecord:
    """Return the record of a definition, whose points claims share, with lines of what is wrong."""
    share = POINTS / len(judged_claims)
    properties = tuple(_record(judged_claim, share) for judged_claim in judged_claims)
    places = sort_positions(at for judged_claim in judged_claims for at in judged_claim.lines)
    holds = all(judged_claim.holds for judged_claim in judged_claims)
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


def _record(judged_claim: JudgedClaim, share: float) -> PropertyRecord:
    claim = judged_claim.claim
    given = claim.name, claim.claim, claim.group.value
    if judged_claim.holds:
        return PropertyRecord(*given, Status.PASSED.value, share, share)
    told = judged_claim.expected, judged_claim.got, "", claim.claim, judged_claim.case
    violation = Violation(ViolationKind.VALUE, *told)
    message, words = shorten(str(violation)), shorten(violation.redacted_message)
    case = judged_claim.case or None
    return PropertyRecord(*given, Status.FAILED.value, 0.0, share, message, case, words=words)
