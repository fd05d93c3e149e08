"""Find the one edit that undoes a slip, where an answer stops before it computes anything.

Theory
------
A misspelt name or a missing `return` costs every point, although the answer may be right otherwise.
So if an answer stops before it earns anything, the edit that undoes its slip is made, if the code
says which one that is (`worker.slips`). The answer with this edit is judged as the answer itself
is: in an attempt under the same rules. It counts if all essential checks hold and it earns points,
of which it pays a part (`report.points`).

Only one edit is ever tried. If several were tried and the right one kept, an answer could list
many guesses and stop on purpose, and the repair would choose among them. With one, a stop earns
less than the guess behind it.

An answer that computes something is judged by what it computes, even if one edit would make it
right: a missing scale is no slip. An answer that calls what is prohibited makes no slip either.
"""

from collections.abc import Sequence

from headcheck.grader.grading.attempts import Attempt, Judgement
from headcheck.grader.grading.infer import is_open
from headcheck.grader.grading.recording import summarise_status
from headcheck.grader.reading.edits import Edit
from headcheck.grader.report.points import Points, award_points
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.properties.property import Verdict
from headcheck.properties.violations.violation import NOT_FAILED, Reason, Status, SubmissionFailed


def find_stop(judged: Judgement, points: Points | None) -> SubmissionFailed | None:
    """Return how an answer to an exercise stopped before it earned anything, if it did."""
    target = judged.attempt.target
    if target.contract is not None or is_open(target.exercise):
        return None
    if judged.failure is not None:
        return judged.failure if _is_slip(judged.failure) else None
    if any(award_points(target.exercise, judged.verdicts, points)):
        return None
    violations = (v.violation for v in judged.verdicts if v.violation is not None)
    if any(violation.reason is Reason.NOTHING_RETURNED for violation in violations):
        return SubmissionFailed(Status.CRASHED, "it returns nothing")
    if summarise_status(judged.verdicts) is not Status.CRASHED:
        return None
    failed = (v.failure for v in judged.verdicts if v.status not in NOT_FAILED)
    first = next((each for each in failed if each is not None), None)
    return first if first is not None and _is_slip(first) else None


def _is_slip(failure: SubmissionFailed) -> bool:
    """Whether code was stopped by an error, and did not end its process or run for too long."""
    return failure.status is Status.CRASHED and failure.raised


def find_repair(session: Session, name: str, stop: SubmissionFailed) -> Edit | None:
    """Return the edit that undoes the slip for which a definition stops, if there is just one.

    The session has only read the submission. Raises SubmissionFailed.
    """
    edits = session.list_slips(name, stop.cell, stop.line)
    return edits[0] if len(edits) == 1 else None


def undoes_slip(attempt: Attempt, verdicts: Sequence[Verdict], points: Points | None) -> bool:
    """Whether an answer earns points with its edit, and all its essential checks hold."""
    essential = (v for v in verdicts if v.property.essential)
    held = all(v.status is Status.PASSED for v in essential)
    return held and any(award_points(attempt.target.exercise, verdicts, points))
