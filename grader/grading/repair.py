"""Find the one edit that undoes a slip, where an answer stops before it computes anything.

Theory
------
A misspelt name or a missing `return` costs every point, although the answer may be right otherwise.
So if an answer stops before it earns anything, the edits that may undo a slip (`worker.slips`) are
tried, the likeliest first, on one plain case. An edit counts only if all essential checks of the
exercise hold on all their cases. The answer is then judged with this edit, in a process of its own
like every attempt, and pays for it (`report.points`).

An answer that computes something is judged by what it computes, even if one edit would make it
right: a missing scale is no slip. How many edits are tried is fixed, so that what is found does not
depend on the speed of the machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headcheck.grader.grading.attempts import Attempt, Judgement
from headcheck.grader.grading.open_mode import is_open
from headcheck.grader.grading.recording import summarise_status
from headcheck.grader.reading.edits import Edit
from headcheck.grader.report.points import Points, award_points
from headcheck.grader.sandbox.grader_side.budget import BudgetExhausted
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.properties.cases.search_cases import estimate_work
from headcheck.properties.check import find_first_failure
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, PropertyGroup, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import (
    NOT_FAILED,
    Reason,
    Status,
    SubmissionFailed,
)

MAX_TRIED = 200
"""how many edits are tried; in our tests one took some 8 ms"""
MAX_WORK = 2 * 10**8
"""the estimated work of all calls, so that fewer edits are tried on large models"""
Plan = Mapping[Property, Sequence[Case]]


def find_stop(judged: Judgement, points: Points | None) -> SubmissionFailed | None:
    """Return how an answer to an exercise stopped before it earned anything, if it did."""
    target = judged.attempt.target
    if target.contract is not None or is_open(target.exercise):
        return None
    if judged.failure is not None:
        return judged.failure if _is_slip(judged.failure) else None
    if any(award_points(target.exercise, judged.verdicts, points)):
        return None
    if any(_returns_nothing(verdict) for verdict in judged.verdicts):
        return SubmissionFailed(Status.CRASHED, "it returns nothing")
    if summarise_status(judged.verdicts) is not Status.CRASHED:
        return None
    failed = (v.failure for v in judged.verdicts if v.status not in NOT_FAILED)
    return next((each for each in failed if each is not None and _is_slip(each)), None)


def _is_slip(failure: SubmissionFailed) -> bool:
    """Whether code was stopped by an error, and did not end its process or run for too long."""
    return failure.status is Status.CRASHED and failure.raised


def _returns_nothing(verdict: Verdict) -> bool:
    violation = verdict.violation
    return violation is not None and violation.reason is Reason.NOTHING_RETURNED


def find_repair(
    session: Session, attempt: Attempt, stop: SubmissionFailed, seed: int
) -> Edit | None:
    """Return the first edit with which all essential checks hold. The session is used for it."""
    exercise = attempt.target.exercise
    transfer = exercise.contract.transfer or ()
    names = (attempt.target.name, *(each.name for each in transfer))
    plan = exercise.plan_cases(seed, "cpu")
    essential = {prop: cases for prop, cases in plan.items() if prop.essential}
    harness = Harness(ChannelSubject(session), replace(exercise.contract, name=attempt.target.name))
    try:
        edits = session.list_slips(names[0], stop.cell, stop.line)
        plain = _choose_plain(essential)
        work = sum(estimate_work(case) for cases in plain.values() for case in cases)
        for edit in edits[: min(MAX_TRIED, MAX_WORK // work)]:
            session.edit = edit
            if _try(session, harness, names, plain) and _hold(harness, essential):
                return edit
    except SubmissionFailed:  # the file has used up its time
        return None
    return None


def _choose_plain(essential: Plan) -> Plan:
    """Return a case of values on which few wrong edits are right: with several tokens."""
    plain = {prop: max(cases[:4], key=estimate_work) for prop, cases in essential.items()}
    about_values = [prop for prop in plain if prop.group is PropertyGroup.VALUES]
    first = min(about_values or plain, key=lambda prop: estimate_work(plain[prop]))
    return {first: [plain[first]]}


def _try(session: Session, harness: Harness, names: Sequence[str], plain: Plan) -> bool:
    """Return whether the edited code is right on one case. Raises BudgetExhausted."""
    harness.forget()
    try:
        session.load(*names)
    except BudgetExhausted:
        raise
    except SubmissionFailed:
        return False
    return _hold(harness, plain)


def _hold(harness: Harness, plan: Plan) -> bool:
    """Return whether all these properties hold. Raises BudgetExhausted."""
    for prop, cases in plan.items():
        verdict = find_first_failure(prop, harness, cases)
        if isinstance(verdict.failure, BudgetExhausted):
            raise verdict.failure
        if verdict.status in (Status.FAILED, Status.CRASHED, Status.TIMED_OUT):
            return False
    return True
