"""Transcripts: what they show is what a live check shows, and nothing is concluded from less."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from headcheck.grader.batch import transcript
from headcheck.grader.batch.plan import get_batch_plan
from headcheck.grader.batch.transcript import TranscriptReplay
from headcheck.grader.grading.attempts import check_all
from headcheck.grader.sandbox.grader_side.subject import Channel, ChannelSubject
from headcheck.grader.sandbox.wire import Message
from headcheck.properties.check import check_property
from headcheck.properties.families.history import earlier_calls_do_not_matter
from headcheck.properties.families.purity import earlier_results_are_left_unchanged
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property
from headcheck.properties.violations.violation import Status, SubmissionFailed
from tests.grader.grading.causal import EXERCISE, NAME, change_solution, make_subject
from tests.submissions import execute

CASES = EXERCISE.plan_cases()
PLAN = get_batch_plan(EXERCISE, EXERCISE.contract.mappings, 0, "cpu")
TRANSCRIPTS = PLAN.transcripts
DETACHED = change_solution(
    "torch.softmax(attn_scores, dim=-1)",
    "torch.softmax(attn_scores.detach() if self.training else attn_scores, dim=-1)",
)


@dataclass(eq=False)
class Counted:
    """A channel that counts messages, and may spoil replies to transcripts."""

    channel: Channel
    asked: int = 0
    spoilt: bool = False
    gone: bool = False

    def request(self, op: str, meta: Mapping[str, Any], tensors: Any = ()) -> Message:
        self.asked += 1
        if self.gone:
            raise SubmissionFailed(Status.CRASHED, "it is gone")
        reply = self.channel.request(op, meta, tensors)
        if self.spoilt and op == "run_transcript":
            replies = list(reply.meta["replies"])[:-1]
            return replace(reply, meta={"replies": replies})
        return reply


def replay(source: str = EXERCISE.solution) -> tuple[TranscriptReplay, Counted]:
    channel = Counted(make_subject(source).channel)
    harness = Harness(ChannelSubject(channel), replace(EXERCISE.contract, name=NAME))
    assert harness.contract.name == NAME  # found out now: what is counted is asked by checks
    channel.asked = 0
    return TranscriptReplay(harness, TRANSCRIPTS, CASES), channel


def test_every_live_property_has_a_transcript() -> None:
    live = [prop for prop in EXERCISE.properties if prop not in PLAN.queries_by_property]
    assert set(TRANSCRIPTS) == set(live)
    assert sum(len(each.requests) for each in TRANSCRIPTS.values()) > 100


def test_a_right_answer_is_asked_once_for_each_property() -> None:
    replies, channel = replay()
    assert all(replies.establishes(prop) for prop in TRANSCRIPTS)
    assert channel.asked == len(TRANSCRIPTS)


def test_what_fails_live_is_not_established() -> None:
    replies, _ = replay(DETACHED)
    live = Harness(make_subject(DETACHED), replace(EXERCISE.contract, name=NAME))
    for prop in TRANSCRIPTS:
        verdict = check_property(prop, live, CASES[prop])
        if verdict.status is not Status.PASSED:
            assert not replies.establishes(prop), prop.name


@pytest.mark.parametrize("prop", [earlier_results_are_left_unchanged, earlier_calls_do_not_matter])
def test_what_was_not_expected_is_not_established(prop: Property) -> None:
    replies, _ = replay()
    first, *others = TRANSCRIPTS[prop].requests
    changed = {**first, "meta": {**first["meta"], "seed": 77}}
    other = replace(TRANSCRIPTS[prop], requests=[changed, *others])
    replies.transcripts = {**TRANSCRIPTS, prop: other}
    assert not replies.establishes(prop)
    assert not replies.given_up, "others may still be tried"


def test_fewer_replies_than_requests_are_not_believed() -> None:
    replies, channel = replay()
    channel.spoilt = True
    assert not replies.establishes(earlier_results_are_left_unchanged)
    assert replies.given_up


def test_after_a_process_is_gone_no_more_transcripts_are_sent() -> None:
    replies, channel = replay()
    channel.gone = True
    assert not replies.establishes(earlier_results_are_left_unchanged)
    assert not replies.establishes(earlier_calls_do_not_matter)
    assert channel.asked == 1


def test_a_property_without_a_transcript_is_checked_live() -> None:
    replies, channel = replay()
    replies.transcripts = {}
    assert not replies.establishes(earlier_results_are_left_unchanged)
    assert channel.asked == 0


@pytest.mark.parametrize("source", [EXERCISE.solution, DETACHED], ids=["right", "wrong"])
def test_verdicts_are_the_same_without_transcripts(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge() -> list[tuple[str, Status, str]]:
        harness = Harness(make_subject(source), replace(EXERCISE.contract, name=NAME))
        verdicts = check_all(
            harness, EXERCISE, lambda p, c: check_property(p, harness, c), harness.forget
        )
        return [(v.property.name, v.status, v.message) for v in verdicts]

    sent = judge()
    monkeypatch.setattr(TranscriptReplay, "establishes", lambda self, prop: False)
    assert judge() == sent


def test_standard_streams_stay_while_transcripts_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread prints progress meanwhile."""
    streams: set[Any] = set()
    namespace = execute(EXERCISE.solution)
    plain = namespace[NAME].forward

    def forward(self: Any, x: Any) -> Any:
        streams.update((sys.stdout, sys.stderr))
        return plain(self, x)

    namespace[NAME].forward = forward
    monkeypatch.setattr(transcript, "_run_solution", lambda _: namespace)
    cases = {earlier_calls_do_not_matter: CASES[earlier_calls_do_not_matter]}
    assert transcript.write_transcripts(EXERCISE, EXERCISE.contract, cases).keys() == cases.keys()
    assert streams == {sys.stdout, sys.stderr}
