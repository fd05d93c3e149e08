"""A slow module is called with fewer sequences, and is judged as a quick one is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer
from headcheck.grader.audit.matrix import load_subject
from headcheck.grader.sandbox.grader_side.subject import Channel, ChannelSubject
from headcheck.grader.sandbox.operations import NamedTensors
from headcheck.grader.sandbox.wire import Message
from headcheck.properties.check import find_first_failure
from headcheck.properties.families import dropout, list_properties
from headcheck.properties.families.dropped_weights import SHARE_OF_A_CALL
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Verdict
from headcheck.properties.violations.violation import Status

EXERCISE = BY_SLUG["causal_attention"]
CALL_S = 10.0
SPEEDS = [0.0, 0.001, 0.011, 0.1, 1.0]
"""seconds of one sequence of sixteen tokens; loops over single tokens take a hundredth"""


@dataclass
class SlowChannel:
    """A channel to a module that takes some seconds for every sequence of sixteen tokens."""

    channel: Channel
    seconds: float
    used_s: float = 0.0
    call_s: float = CALL_S
    longest: float = 0.0

    def request(self, op: str, meta: Mapping[str, Any], tensors: NamedTensors = ()) -> Message:
        if op == "forward":
            batch, tokens, _ = tensors[0][1].shape
            took = self.seconds * batch * tokens / 16
            self.used_s += took
            self.longest = max(self.longest, took)
        return self.channel.request(op, meta, tensors)


def judge(answer: str, seconds: float) -> tuple[dict[str, Verdict], SlowChannel]:
    subject = load_subject(find_answer(EXERCISE, answer))
    slow = SlowChannel(subject.channel, seconds)
    harness = Harness(ChannelSubject(slow), EXERCISE.contract, slow)
    plan = EXERCISE.plan_cases()
    found = {
        prop.name: find_first_failure(prop, harness, plan[prop])
        for prop in list_properties(dropout)
        if prop in plan
    }
    return found, slow


@pytest.mark.parametrize("seconds", SPEEDS)
def test_a_right_module_passes_at_every_speed(seconds: float) -> None:
    found, slow = judge("plain", seconds)
    assert {v.status for v in found.values()} == {Status.PASSED}
    # The least number of sequences is called whatever it takes.
    assert slow.longest <= max(SHARE_OF_A_CALL * CALL_S, 64 * seconds)


@pytest.mark.parametrize("seconds", SPEEDS)
@pytest.mark.parametrize("answer", ["dropout_never", "dropout_on_scores", "dropout_on_output"])
def test_a_wrong_one_fails_at_every_speed(answer: str, seconds: float) -> None:
    found, _ = judge(answer, seconds)
    assert Status.FAILED in {v.status for v in found.values()}
