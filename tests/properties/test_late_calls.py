"""What is told of a call that takes too long is the input that was called."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import AnswerKind, find_answer, list_answers
from headcheck.grader.audit.matrix import load_subject
from headcheck.grader.sandbox.grader_side.subject import Channel, ChannelSubject, make_subject
from headcheck.grader.sandbox.operations import NamedTensors
from headcheck.grader.sandbox.wire import Message
from headcheck.properties.check import find_first_failure
from headcheck.properties.families.dropout import dropout_drops_the_stated_share
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, Verdict
from headcheck.properties.violations.violation import Status, SubmissionFailed

EXERCISE = BY_SLUG["causal_attention"]
REQUESTS = (0, 2, 5, 13)
LATE = "took more than 10 s for one call: is there an endless loop?"


SPENT = "used more than 60 s of processor time"


@dataclass
class Ending:
    """A channel to a submission that has used up its time after so many requests."""

    channel: Channel
    left: int

    def request(self, op: str, meta: Mapping[str, Any], tensors: NamedTensors = ()) -> Message:
        self.left -= 1
        if self.left < 0:
            raise SubmissionFailed(Status.NOT_ASKED, SPENT)
        return self.channel.request(op, meta, tensors)


@dataclass
class Late:
    """A channel to a submission that never answers for so many sequences."""

    channel: Channel
    sequences: int

    def request(self, op: str, meta: Mapping[str, Any], tensors: NamedTensors = ()) -> Message:
        if op == "forward" and tensors[0][1].shape[0] >= self.sequences:
            raise SubmissionFailed(Status.TIMED_OUT, LATE)
        return self.channel.request(op, meta, tensors)


def check(prop: Property, sequences: int) -> Verdict:
    subject = load_subject(find_answer(EXERCISE, "plain"))
    harness = Harness(ChannelSubject(Late(subject.channel, sequences)), EXERCISE.contract)
    return find_first_failure(prop, harness, EXERCISE.plan_cases()[prop])


def test_the_number_of_sequences_is_that_of_the_call() -> None:
    verdict = check(dropout_drops_the_stated_share, 100)
    assert verdict.status is Status.TIMED_OUT and verdict.case is not None
    assert verdict.case.batch == 2 and verdict.failure is not None
    assert verdict.failure.called is not None and verdict.failure.called.batch == 883
    assert "batch=883 tokens=16" in verdict.message


def test_a_call_on_the_case_itself_is_told_as_the_case() -> None:
    verdict = check(it_equals_the_equation, 1)
    assert verdict.status is Status.TIMED_OUT and verdict.case is not None
    assert verdict.failure is not None and verdict.failure.called is None
    assert f"batch={verdict.case.batch} tokens={verdict.case.tokens}" in verdict.message


def test_a_crash_is_told_with_the_case_of_the_check() -> None:
    """Its explanation has the sizes of the call."""
    subject = make_subject({"CausalAttention": object})
    cases = EXERCISE.plan_cases()[it_equals_the_equation]
    harness = Harness(subject, EXERCISE.contract)
    verdict = find_first_failure(it_equals_the_equation, harness, cases)
    assert verdict.status is Status.CRASHED
    assert verdict.failure is not None and verdict.failure.called is None


def test_whenever_the_time_ends_nothing_is_wrong() -> None:
    """A limit that is used up is neither the error that a check expects nor one that it sees."""
    exercise = BY_SLUG["kv_cache"]
    answer = list_answers(exercise, AnswerKind.RIGHT)[0]
    for prop, cases in exercise.plan_cases().items():
        ended = set()
        for left in REQUESTS:
            channel = Ending(load_subject(answer).channel, left)
            harness = Harness(ChannelSubject(channel), exercise.contract)
            ended.add(find_first_failure(prop, harness, cases[:1]).status)
        assert ended <= {Status.PASSED, Status.NOT_ASKED}, prop.name
