"""Check properties of an exercise by batched answers, or else by live calls."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headcheck.exercises import Exercise
from headcheck.grader.batch.message import BatchPlan, Comparison
from headcheck.grader.batch.plan import get_batch_plan
from headcheck.grader.batch.replay import AnswerReplay
from headcheck.grader.batch.smallest_first import check_smallest_first
from headcheck.grader.batch.transcript import TranscriptReplay
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import (
    CheckOnCases,
    Property,
    PropertyGroup,
    Verdict,
    check_in_order,
)
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status

MANY = 32
"""if more cases than this have been replaced, only a sample of them is checked"""


def check_by_batches(
    harness: Harness,
    exercise: Exercise,
    check_live: CheckOnCases,
    seed: int = 0,
    device: str = "cpu",
) -> Iterator[Verdict]:
    """Run the batch plan, and yield a verdict on every property by the answers.

    `check_live` checks the properties that batches cannot decide. An answer that is too slow for
    batches is first asked the smallest inputs, since there may be no time for others.
    """
    answers = run_batch_plan(harness, exercise, seed, device)
    check = _make_check(answers, check_live)
    in_some_order = check_smallest_first if answers.comparison.late else check_in_order
    return in_some_order(answers.cases, harness, check)


def _make_check(answers: "BatchResult", check_live: CheckOnCases) -> CheckOnCases:
    plan, late = answers.cases, answers.comparison.late
    transcripts = answers.batch_plan.transcripts
    replies = TranscriptReplay(answers.harness, transcripts, plan, given_up=late)

    def check_one(prop: Property, cases: Sequence[Case]) -> Verdict:
        is_planned = cases is plan[prop]
        left = answers.list_open(prop, cases)
        if not left or (is_planned and replies.establishes(prop)):
            return Verdict(prop, Status.PASSED, len(cases))
        verdict = check_live(prop, left if is_planned else thin_out(left))
        return replace(verdict, cases_tried=len(cases) - len(left) + verdict.cases_tried)

    return check_one


def thin_out(cases: Sequence[Case]) -> Sequence[Case]:
    """Return every n-th case if there are more than `MANY`.

    If a submission does not support a peculiarity, the cases that replace those with the
    peculiarity are in no batch plan, and each needs separate calls. Since the submission is already
    wrong, hundreds of such cases are not worth the time.
    """
    return cases[:: max(1, -(-len(cases) // MANY))]


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
    return BatchResult(harness, batch_plan, exercise.plan_cases(seed, device), comparison)
