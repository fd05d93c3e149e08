"""What a class without an exercise refuses is not held against it: headcheck chose the inputs.

A class may take heads of some widths only, more than one token, or numbers of one precision. What
it says by raising, or by the precision in which it computes, is not known before it is called.
"""

from collections.abc import Sequence
from dataclasses import replace

from headcheck.properties.property import CheckOnCases, Property, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.peculiarity import DOUBLE_PRECISION
from headcheck.properties.violations.violation import STATED, Note, Status, SubmissionFailed

REFUSED = Note("recognised", "what it refuses by an error of its own is not judged")
SINGLE = Note("recognised", "it computes in float32 only, and is judged in this precision")


def leave_out_refused(check: CheckOnCases) -> CheckOnCases:
    """Return a check without the cases that a class refuses.

    If it refuses all, there is nothing to ask; an essential check counts as not tried.
    """

    def check_others(prop: Property, cases: Sequence[Case]) -> Verdict:
        verdict, left = check(prop, cases), list(cases)
        while _is_refusal(verdict):
            left = [case for case in left if case != verdict.case]
            if not left or len(left) == len(cases):
                status = Status.NOT_TRIED if prop.essential else Status.PASSED
                return replace(verdict, status=status)
            cases, verdict = left, check(prop, left)
        return verdict

    return check_others


def excuse_precision(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts without those on float64, if a class raises there and is right else."""
    others = [v for v in verdicts if v.property.about is not DOUBLE_PRECISION]
    if any(v.status not in (Status.PASSED, Status.NOT_TRIED) for v in others):
        return list(verdicts)
    return [replace(v, status=_excuse(v)) for v in verdicts]


def _excuse(verdict: Verdict) -> Status:
    """Return the status of a verdict; one on cases of which none is asked is passed."""
    asked = verdict.blocked_by or verdict.property
    excused = asked.about is DOUBLE_PRECISION and verdict.status is not Status.FAILED
    return Status.PASSED if excused else verdict.status


def list_refusals(verdicts: Sequence[Verdict]) -> list[Note]:
    """Return notes on what a class was not asked, because it says that it does not take this."""
    excused = [v.failure for v in verdicts if v.status is Status.PASSED and v.failure]
    return list(dict.fromkeys(REFUSED if _states(each) else SINGLE for each in excused))


def _is_refusal(verdict: Verdict) -> bool:
    """Whether a class says itself that it does not take the inputs of a check."""
    failure = verdict.failure
    return verdict.status is Status.CRASHED and failure is not None and _states(failure)


def _states(failure: SubmissionFailed) -> bool:
    return STATED.match(failure.message) is not None
