"""What is seen from answers that are there: no question twice, and nothing believed in vain."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from grader.batch.message import Found
from grader.batch.plan import Answers, answered
from grader.batch.replay import Recollection
from grader.sandbox.grader_side.subject import Channel, ChannelSubject
from grader.sandbox.wire import Message
from properties.families.batch import each_sequence_is_attended_alone
from properties.families.gradients import (
    every_weight_gets_a_gradient,
    the_gradient_predicts_a_small_step,
)
from properties.families.masking import (
    derivatives_reach_only_the_past,
    the_future_is_invisible,
    the_order_of_the_past_does_not_matter,
)
from properties.families.purity import the_input_is_left_unchanged
from properties.families.values import it_equals_the_equation
from properties.harness.harness import Bench
from tests.grader.grading.causal import EXERCISE, MIXED, NAME, SCRIPT, changed, subject_of

PLAN = EXERCISE.plan()
GRADIENTS = (
    derivatives_reach_only_the_past,
    every_weight_gets_a_gradient,
    the_gradient_predicts_a_small_step,
)
UNSCALED = changed("/ keys.shape[-1] ** 0.5", "")


@dataclass(eq=False)
class Counted:
    """A channel that counts what is asked."""

    channel: Channel
    asked: int = 0

    def request(self, op: str, meta: Mapping[str, Any], tensors: Any = ()) -> Message:
        self.asked += 1
        return self.channel.request(op, meta, tensors)


def counted(source: str) -> tuple[Answers, Counted]:
    """The answers to the script, and what will be asked from now on."""
    channel = Counted(subject_of(source).channel)
    answers = answered(Bench(ChannelSubject(channel), EXERCISE.contract), EXERCISE)
    channel.asked = 0
    return answers, channel


def test_a_claim_that_holds_of_a_wrong_answer_is_seen_without_a_question() -> None:
    answers, channel = counted(UNSCALED)
    assert the_future_is_invisible not in answers.proven
    assert answers.keep(the_future_is_invisible)
    assert channel.asked == 0


def test_a_claim_that_breaks_is_left_to_the_submission() -> None:
    answers, channel = counted(UNSCALED)
    assert not answers.keep(it_equals_the_equation)
    assert channel.asked == 0


def test_what_answers_do_not_tell_is_left_to_the_submission() -> None:
    answers, _ = counted(UNSCALED)
    assert not answers.keep(the_input_is_left_unchanged)


@pytest.mark.parametrize("claim", GRADIENTS)
def test_gradients_are_recalled_too(claim: Any) -> None:
    answers, channel = counted(UNSCALED)
    assert claim not in answers.proven
    assert answers.keep(claim)
    assert channel.asked == 0


@pytest.mark.parametrize("claim", GRADIENTS)
def test_where_a_gradient_is_missing_the_submission_is_asked(claim: Any) -> None:
    answers, _ = counted(changed(MIXED, "attn_weights @ values.detach()"))
    assert not answers.keep(claim)


def test_a_future_that_is_seen_is_not_overlooked() -> None:
    answers, _ = counted(changed("diagonal=1", "diagonal=2"))
    assert not answers.keep(the_future_is_invisible)


def test_nothing_stacked_is_recalled_where_sequences_of_a_batch_mix() -> None:
    answers, _ = counted(changed(MIXED, "attn_weights @ (values + values.mean())"))
    assert not answers.keep(each_sequence_is_attended_alone)
    assert not answers.keep(the_order_of_the_past_does_not_matter)


def test_answers_that_were_lost_are_not_recalled() -> None:
    subject = subject_of(EXERCISE.solution)
    bench = Bench(subject, EXERCISE.contract)
    asked = SCRIPT.asked[the_future_is_invisible]
    found = SCRIPT.put_to(subject, NAME)
    nothing = Found(found.inexact, rows=tuple(None for _ in found.rows))
    for rows, expected in ((found, True), (nothing, False)):
        keys = [SCRIPT.questions[number].key for number in asked]
        recalled = [SCRIPT.recalled(rows, key, alone=False) for key in keys]
        assert all((each is not None) is expected for each in recalled)
        answers = Answers(bench, SCRIPT, PLAN, replace_inexact(rows, asked))
        assert answers.keep(the_future_is_invisible) is expected


def replace_inexact(found: Found, inexact: frozenset[int]) -> Found:
    """The same answers, so that nothing is proven by these."""
    return Found(inexact, rows=found.rows)


def test_an_answer_that_is_no_number_is_not_recalled() -> None:
    answers, _ = counted(changed(MIXED, f"({MIXED}) * float('nan')"))
    [number, *_] = SCRIPT.asked[it_equals_the_equation]
    key = SCRIPT.questions[number].key
    assert SCRIPT.recalled(answers.found, key, alone=False) is None


def test_notes_go_to_the_bench_that_is_remembered() -> None:
    subject = subject_of(changed(MIXED, "(attn_weights.float() @ values.float()).to(x.dtype)"))
    bench = Bench(subject, EXERCISE.contract)
    answers = answered(bench, EXERCISE)
    bench.notes.clear()
    seen = Recollection(bench, lambda key: SCRIPT.recalled(answers.found, key, alone=False))
    assert seen.keeps(it_equals_the_equation, PLAN[it_equals_the_equation])
    assert [kind for kind, _ in bench.notes] == ["float32"]
