"""Reach a verdict on every property of an exercise, from batched answers or else live calls."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from headcheck.exercises import Exercise
from headcheck.grader.batch.message import BatchPlan, Comparison
from headcheck.grader.batch.plan import get_batch_plan
from headcheck.grader.batch.replay import AnswerReplay
from headcheck.grader.batch.transcript import TranscriptReplay
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.properties.harness.case_context import FLOAT32_NOTE
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import (
    Property,
    PropertyGroup,
    Verdict,
    VerdictCallback,
    check_in_order,
    ignore_verdict,
)
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import NOT_FAILED, Status

MANY = 32
"""if more cases than this have been replaced, only a sample of them is checked"""
CheckLive = Callable[[Property, Sequence[Case]], Verdict]
"""checks a property on cases, on the submission itself"""


def check_all(
    harness: Harness,
    exercise: Exercise,
    check_live: CheckLive,
    restart: Callable[[], None],
    seed: int = 0,
    device: str = "cpu",
    on_verdict: VerdictCallback = ignore_verdict,
) -> list[Verdict]:
    """Return a verdict on every property; `check_live` checks those that batches cannot decide.

    If calls have side effects, a verdict would depend on all earlier calls. Then `restart` makes
    the submission forget these calls, and every property is checked separately, on its own modules.
    So a submission whose modules disturb each other fails only the property about such effects. A
    property that held on all its cases is checked again on the first and the last of them.
    `on_verdict` is then called a second time for each.
    """
    plan = exercise.plan_cases(seed, device)
    answers = run_batch_plan(harness, exercise, seed, device)
    replies = TranscriptReplay(harness, answers.batch_plan.transcripts, plan)

    def check_one(prop: Property, cases: Sequence[Case]) -> Verdict:
        is_planned = cases is plan[prop]
        left = answers.list_open(prop, cases)
        if not left or (is_planned and replies.establishes(prop)):
            return Verdict(prop, Status.PASSED, len(cases))
        verdict = check_live(prop, left if is_planned else thin_out(left))
        return replace(verdict, cases_tried=len(cases) - len(left) + verdict.cases_tried)

    return _check_again_alone(harness, plan, check_one, check_live, restart, on_verdict)


def check_all_live(
    harness: Harness,
    exercise: Exercise,
    check_live: CheckLive,
    restart: Callable[[], None],
    seed: int = 0,
    device: str = "cpu",
    on_verdict: VerdictCallback = ignore_verdict,
) -> list[Verdict]:
    """Do the same without a batch plan, which for a single class would cost more than it saves."""
    plan = exercise.plan_cases(seed, device)
    return _check_again_alone(harness, plan, check_live, check_live, restart, on_verdict)


def _check_again_alone(
    harness: Harness,
    plan: Mapping[Property, Sequence[Case]],
    check_one: CheckLive,
    check_live: CheckLive,
    restart: Callable[[], None],
    on_verdict: VerdictCallback,
) -> list[Verdict]:
    """Check every property; if calls have side effects, check each again on its own modules."""
    held: set[Property] = set()

    def check_isolated(prop: Property, cases: Sequence[Case]) -> Verdict:
        harness.forget()
        ends = cases if len(cases) < 3 else (cases[0], cases[-1])
        verdict = check_live(prop, ends if prop in held else cases)
        passed = verdict.status is Status.PASSED
        return replace(verdict, cases_tried=len(cases)) if passed else verdict

    verdicts = list(check_in_order(plan, harness, check_one, on_verdict))
    if any(has_side_effects(verdict) for verdict in verdicts):
        held |= {each.property for each in verdicts if each.status is Status.PASSED}
        restart()
        verdicts = list(check_in_order(plan, harness, check_isolated, on_verdict))
    return verdicts


def thin_out(cases: Sequence[Case]) -> Sequence[Case]:
    """Return every n-th case if there are more than `MANY`.

    If a submission does not support a peculiarity, the cases that replace those with the
    peculiarity are in no batch plan, and each needs separate calls. Since the submission is already
    wrong, hundreds of such cases are not worth the time.
    """
    return cases[:: max(1, -(-len(cases) // MANY))]


def has_side_effects(verdict: Verdict) -> bool:
    """Return whether a verdict says that calls have effects other than their answers."""
    return verdict.status not in NOT_FAILED and verdict.property.group is PropertyGroup.PURITY


@dataclass(eq=False)
class BatchResult:
    """The answers of a submission to a batch plan, and the conclusions from them."""

    harness: Harness
    batch_plan: BatchPlan
    cases: Mapping[Property, Sequence[Case]]
    comparison: Comparison

    def list_open(self, prop: Property, cases: Sequence[Case]) -> Sequence[Case]:
        """Return the cases on which the answers do not show that a property holds."""
        if cases is self.cases[prop] and prop in self.proven:
            return ()
        recorded = prop in self.batch_plan.queries_by_property
        return self._replay.list_open(prop, cases) if recorded else cases

    @functools.cached_property
    def proven(self) -> frozenset[Property]:
        """The properties that need no check, because every answer that they use is exact."""
        return self.batch_plan.find_proven(self.comparison)

    @functools.cached_property
    def _replay(self) -> AnswerReplay:
        """Replay a property; stacked answers count only if sequences are independent."""
        unstacked = self._make_replay(unstacked=True)
        batch = [prop for prop in self.cases if prop.group is PropertyGroup.BATCH]
        independent = not any(unstacked.list_open(prop, self.cases[prop]) for prop in batch)
        return self._make_replay(unstacked=False) if independent else unstacked

    def _make_replay(self, *, unstacked: bool) -> AnswerReplay:
        recall = functools.partial(self.batch_plan.recall, self.comparison, unstacked=unstacked)
        return AnswerReplay(self.harness, recall)


def run_batch_plan(
    harness: Harness, exercise: Exercise, seed: int = 0, device: str = "cpu"
) -> BatchResult:
    """Run the batch plan of an exercise on a submission."""
    contract = harness.contract
    batch_plan = get_batch_plan(exercise, contract.mappings, seed, device)
    assert isinstance(harness.subject, ChannelSubject)
    comparison = batch_plan.run_on(harness.subject, contract.name)
    if comparison.float32:
        harness.add_note(FLOAT32_NOTE)
    return BatchResult(harness, batch_plan, exercise.plan_cases(seed, device), comparison)
