"""Questions about what some calls of a class do, each of which is answered by one more claim."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from headcheck.grader.grading.claim_records import record_findings
from headcheck.grader.grading.claims import JudgedClaim
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import Submission
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.properties.binding.bench import Bench, Settled
from headcheck.properties.binding.hypotheses import Sizes
from headcheck.properties.binding.search import Match
from headcheck.properties.binding.signature import Signature
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.terms.case import Case


@dataclass(frozen=True, slots=True)
class FurtherQuestion:
    """What is asked of a class, how it is constructed and called for this, and what is said."""

    contract: Contract
    case: Case
    judge: Callable[[Bench], JudgedClaim | None]
    """returns None if calls do not tell whether the claim holds"""
    said: str


def judge_further(
    reading: Session,
    submission: Submission,
    settings: Settings,
    signature: Signature,
    question: FurtherQuestion,
) -> SubmissionRecord | None:
    """Return the record of a class by one more claim; None if calls do not tell.

    Raises SubmissionFailed if the class cannot be loaded, or if its process ends.
    """
    began, contract, case = time.monotonic(), question.contract, question.case
    match, limits = Match(contract, Sizes(case, {})), settings.get_limits(settings.exercise)
    session = reading.start_successor(limits, by_hand=settings.by_hand)
    with contextlib.closing(session):
        session.load(signature.name)
        bench = Bench(ChannelSubject(session), signature, match, Settled(contract), case)
        judged = question.judge(bench)
    if judged is None:
        return None
    return record_findings(reading, submission, signature.name, [judged], [question.said], began)
