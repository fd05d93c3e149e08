"""What is seen from answers that are there: no question twice, and nothing believed in vain."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from headcheck.grader.batch.check import BatchResult, run_batch_plan
from headcheck.grader.batch.message import Comparison
from headcheck.grader.batch.replay import AnswerReplay
from headcheck.grader.sandbox.grader_side.subject import Channel, ChannelSubject
from headcheck.grader.sandbox.wire import Message
from headcheck.properties.families.batch import each_sequence_is_attended_alone
from headcheck.properties.families.gradients import (
    every_weight_gets_a_gradient,
    the_gradient_predicts_a_small_step,
)
from headcheck.properties.families.masking import (
    derivatives_reach_only_the_past,
    the_future_is_invisible,
    the_order_of_the_past_does_not_matter,
)
from headcheck.properties.families.purity import the_input_is_left_unchanged
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.harness import Harness
from tests.grader.grading.causal import (
    BATCH_PLAN,
    EXERCISE,
    MIXED,
    NAME,
    change_solution,
    make_subject,
)

PLAN = EXERCISE.plan_cases()
GRADIENTS = (
    derivatives_reach_only_the_past,
    every_weight_gets_a_gradient,
    the_gradient_predicts_a_small_step,
)
UNSCALED = change_solution("/ keys.shape[-1] ** 0.5", "")


@dataclass(eq=False)
class Counted:
    """A channel that counts what is asked."""

    channel: Channel
    asked: int = 0

    def request(self, op: str, meta: Mapping[str, Any], tensors: Any = ()) -> Message:
        self.asked += 1
        return self.channel.request(op, meta, tensors)


def counted(source: str) -> tuple[BatchResult, Counted]:
    """The answers to the script, and what will be asked from now on."""
    channel = Counted(make_subject(source).channel)
    answers = run_batch_plan(Harness(ChannelSubject(channel), EXERCISE.contract), EXERCISE)
    channel.asked = 0
    return answers, channel


def holds(answers: BatchResult, claim: Any) -> bool:
    """Whether the answers alone show that a claim holds on all of its cases."""
    return not answers.list_open(claim, PLAN[claim])


def test_violated_property_is_left_to_a_live_check() -> None:
    answers, channel = counted(UNSCALED)
    assert not holds(answers, it_equals_the_equation)
    assert channel.asked == 0


def test_cases_before_the_first_violation_are_not_asked_again() -> None:
    wrong_when_long = change_solution(MIXED, f"({MIXED}) * (1 + (x.shape[1] > 5))")
    answers, _ = counted(wrong_when_long)
    cases = PLAN[it_equals_the_equation]
    first = next(number for number, case in enumerate(cases) if case.tokens > 5)
    assert first > 0
    assert answers.list_open(it_equals_the_equation, cases) == list(cases[first:])


def test_answers_beside_a_call_that_crashed_are_used() -> None:
    crashing = change_solution(MIXED, f"({MIXED}) if x.shape[1] != 4 else x @ x")
    answers, _ = counted(crashing)
    cases = PLAN[it_equals_the_equation]
    open_ = answers.list_open(it_equals_the_equation, cases)
    assert 0 < len(open_) < len(cases)
    assert all(case.tokens == 4 for case in open_)


def test_unrecordable_property_is_left_to_a_live_check() -> None:
    answers, _ = counted(UNSCALED)
    assert not holds(answers, the_input_is_left_unchanged)


@pytest.mark.parametrize("claim", [the_future_is_invisible, *GRADIENTS])
def test_what_holds_of_a_wrong_answer_is_replayed_without_requests(claim: Any) -> None:
    answers, channel = counted(UNSCALED)
    assert claim not in answers.proven
    assert holds(answers, claim)
    assert channel.asked == 0


@pytest.mark.parametrize("claim", GRADIENTS)
def test_missing_gradient_needs_a_live_check(claim: Any) -> None:
    answers, _ = counted(change_solution(MIXED, "attn_weights @ values.detach()"))
    assert not holds(answers, claim)


def test_replay_detects_a_future_leak() -> None:
    answers, _ = counted(change_solution("diagonal=1", "diagonal=2"))
    assert not holds(answers, the_future_is_invisible)


def test_stacked_answers_are_not_replayed_if_sequences_mix() -> None:
    answers, _ = counted(change_solution(MIXED, "attn_weights @ (values + values.mean())"))
    assert not holds(answers, each_sequence_is_attended_alone)
    assert not holds(answers, the_order_of_the_past_does_not_matter)


def test_lost_answers_are_not_replayed() -> None:
    subject = make_subject(EXERCISE.solution)
    harness = Harness(subject, EXERCISE.contract)
    asked = BATCH_PLAN.queries_by_property[the_future_is_invisible]
    found = BATCH_PLAN.run_on(subject, NAME)
    nothing = Comparison(found.inexact, answer_rows=tuple(None for _ in found.answer_rows))
    for rows, expected in ((found, True), (nothing, False)):
        keys = [BATCH_PLAN.query_keys[number].key for number in asked]
        recalled = [BATCH_PLAN.recall(rows, key, unstacked=False) for key in keys]
        assert all((each is not None) is expected for each in recalled)
        answers = BatchResult(harness, BATCH_PLAN, PLAN, replace_inexact(rows, asked))
        assert holds(answers, the_future_is_invisible) is expected


def replace_inexact(found: Comparison, inexact: frozenset[int]) -> Comparison:
    """The same answers, so that nothing is proven by these."""
    return Comparison(inexact, answer_rows=found.answer_rows)


def test_nan_answer_is_not_replayed() -> None:
    answers, _ = counted(change_solution(MIXED, f"({MIXED}) * float('nan')"))
    [number, *_] = BATCH_PLAN.queries_by_property[it_equals_the_equation]
    key = BATCH_PLAN.query_keys[number].key
    assert BATCH_PLAN.recall(answers.comparison, key, unstacked=False) is None


def test_replay_adds_notes_to_the_harness() -> None:
    rough = change_solution(MIXED, "(attn_weights.float() @ values.float()).to(x.dtype)")
    harness = Harness(make_subject(rough), EXERCISE.contract)
    answers = run_batch_plan(harness, EXERCISE)
    harness.notes.clear()
    recall = partial(BATCH_PLAN.recall, answers.comparison, unstacked=False)
    seen = AnswerReplay(harness, recall)
    assert not seen.list_open(it_equals_the_equation, PLAN[it_equals_the_equation])
    assert [kind for kind, _ in harness.notes] == ["float32"]
