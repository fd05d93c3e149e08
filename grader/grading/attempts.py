"""Judge a definition in one attempt, or in several if the first one measured something else.

Theory
------
A verdict should be about what an answer computes. Four things can keep an attempt from measuring
this: a slip that stops every call, a bias that nobody asked for, calls that disturb later calls,
and other arguments or results than the statement's. Each is a mistake of its own and would
otherwise fail most of the properties, too. So an attempt that shows such a mistake is followed by
one that leaves it out:

- as asked: by the contract of the exercise;
- repaired: with the one edit that undoes a slip, if the answer stops (`repair`);
- silenced: with the unwanted biases at zero;
- alone: each property on its own modules, so that modules that disturb each other fail only the
  property about this;
- in the class's own terms: with its own arguments, weights and results.

An attempt is a value, and pure functions make one from the result of another. `judge` is the one
loop that runs them. Each attempt has a process of its own, which remembers nothing of those before,
and a budget. `choose_better` says which result counts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

from headcheck.exercises import Exercise
from headcheck.grader.batch.check import check_by_batches
from headcheck.grader.grading.infer import Target, is_open
from headcheck.grader.reading.edits import Edit
from headcheck.grader.report.records import DiagnosisRecord
from headcheck.grader.sandbox.grader_side.budget import Purpose
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import (
    CheckOnCases,
    Property,
    PropertyGroup,
    Verdict,
    check_in_order,
)
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import NOT_FAILED, Status, SubmissionFailed


class Way(Enum):
    """How the properties are checked in an attempt."""

    BATCHED = "by batched answers where these suffice, else by live calls"
    LIVE = "by live calls: for a single class, a batch plan would cost more than it saves"
    ALONE = "by live calls, and each property on its own modules"


@dataclass(frozen=True)
class Repair:
    """The one edit that undoes a slip, and how the answer stops without it."""

    edit: Edit
    stop: SubmissionFailed
    diagnosis: tuple[DiagnosisRecord, ...] = ()
    """the known mistakes that explain how it stops"""


@dataclass(frozen=True)
class Attempt:
    """One way to judge a definition, in a process of its own."""

    target: Target
    """the definition, and the contract by which it is judged"""
    way: Way = Way.BATCHED
    silenced: tuple[str, ...] = ()
    """the paths of the biases that are zero"""
    repair: Repair | None = None
    """the edit with which the definition is loaded"""
    held: frozenset[Property] = frozenset()
    """properties that held on all their cases, so that only the first and the last are tried"""
    purpose: Purpose = Purpose.VERDICTS
    """the purpose whose budget the attempt uses"""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The result of an attempt: its verdicts, or the failure that prevented them."""

    attempt: Attempt
    verdicts: Sequence[Verdict] = ()
    failure: SubmissionFailed | None = None


Found = TypeVar("Found", bound=Judgement)


def judge(
    first: Attempt,
    run: Callable[[Attempt, Found | None], Found],
    follow_ups: Sequence[Callable[[Found], Attempt | None]],
) -> Found:
    """Make an attempt, and those that follow from the best result so far; return the best.

    `run` gets an attempt, and the best result so far.
    """
    return judge_further(run(first, None), run, follow_ups)


def judge_further(
    best: Found,
    run: Callable[[Attempt, Found | None], Found],
    follow_ups: Sequence[Callable[[Found], Attempt | None]],
) -> Found:
    """Make the attempts that follow from the best result so far; return the best."""
    for follow_up in follow_ups:
        attempt = follow_up(best)
        if attempt is not None:
            best = choose_better(best, run(attempt, best))
    return best


def choose_better(earlier: Found, later: Found) -> Found:
    """Return the later result if it has verdicts, since it leaves out what spoilt the earlier one.

    It has none if no process could be started, or if the definition could not be loaded again.
    """
    return later if later.failure is None else earlier


def ask(target: Target) -> Attempt:
    """Return the first attempt on a target."""
    in_own_terms = target.contract is not None or is_open(target.exercise)
    return Attempt(target, Way.LIVE if in_own_terms else Way.BATCHED)


def repeat_alone(judged: Judgement) -> Attempt | None:
    """Return the attempt with each property alone, if calls have effects on later ones."""
    if judged.attempt.way is Way.ALONE or not any(map(has_side_effects, judged.verdicts)):
        return None
    held = frozenset(v.property for v in judged.verdicts if v.status is Status.PASSED)
    return replace(judged.attempt, way=Way.ALONE, held=held)


def silence(attempt: Attempt, biases: tuple[str, ...]) -> Attempt:
    """Return the attempt in which these biases are zero."""
    asked = ask(attempt.target)
    return replace(asked, silenced=biases, repair=attempt.repair, purpose=Purpose.SILENCED)


def has_side_effects(verdict: Verdict) -> bool:
    """Return whether a verdict says that calls have effects other than their answers."""
    return verdict.status not in NOT_FAILED and verdict.property.group is PropertyGroup.PURITY


def check_properties(
    attempt: Attempt,
    harness: Harness,
    check_live: CheckOnCases,
    seed: int = 0,
    device: str = "cpu",
) -> Iterator[Verdict]:
    """Yield a verdict on every property; `check_live` checks a property by calls."""
    exercise, check = attempt.target.exercise, check_live
    if attempt.way is Way.BATCHED:
        return check_by_batches(harness, exercise, check_live, seed, device)
    if attempt.way is Way.ALONE:
        check = _isolate(harness, check_live, attempt.held)
    return check_in_order(exercise.plan_cases(seed, device), harness, check)


def _isolate(harness: Harness, check_live: CheckOnCases, held: frozenset[Property]) -> CheckOnCases:
    """Return a check of each property on its own modules."""

    def check_isolated(prop: Property, cases: Sequence[Case]) -> Verdict:
        harness.forget()
        ends = cases if len(cases) < 3 else (cases[0], cases[-1])
        verdict = check_live(prop, ends if prop in held else cases)
        passed = verdict.status is Status.PASSED
        return replace(verdict, cases_tried=len(cases)) if passed else verdict

    return check_isolated


def check_all(
    harness: Harness,
    exercise: Exercise,
    check_live: CheckOnCases,
    restart: Callable[[], None],
    seed: int = 0,
) -> list[Verdict]:
    """Return the verdicts on trusted code in this process, by the contract of the exercise.

    `restart` makes the code forget all calls.
    """

    def run(attempt: Attempt, before: Judgement | None) -> Judgement:
        if before is not None:
            restart()
        found = check_properties(attempt, harness, check_live, seed)
        return Judgement(attempt=attempt, verdicts=list(found))

    first = Attempt(Target(exercise, exercise.contract.name))
    return list(judge(first, run, [repeat_alone]).verdicts)
