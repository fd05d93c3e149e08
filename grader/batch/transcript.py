"""Send all requests of a live check in one message, and run the check on the replies.

A live check (`LiveContext`) makes one request after another, and most of its time is spent waiting
for the other process to wake up. As long as the answers are right, the requests do not depend on
who answers them. So the check runs once on the exercise's own solution, in this process, and its
requests are written down as a *transcript*. A submission gets a transcript as one message and
answers all of its requests. Then the check runs on the replies.

If the property holds, this is the verdict. Nothing else is concluded from a transcript. If the
property is violated, or its check raises or makes a request that is not in the transcript, the
check runs live on the submission as if no transcript existed. So every message to a student
describes what was observed live.

Checks share objects, so the transcripts of an exercise belong together: the numbering of objects
continues through all of them, and objects are kept until the submission's process ends. A check
that needs an object from a transcript that was not sent is run live.
"""

import contextlib
import functools
import runpy
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headcheck.exercises import Exercise
from headcheck.exercises.exercise import BadContract
from headcheck.grader import fault
from headcheck.grader.batch.message import PLACEHOLDER_NAME, Transcript
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject, InProcessChannel
from headcheck.grader.sandbox.operations import RUN_TRANSCRIPT, NamedTensors, TranscriptReply
from headcheck.grader.sandbox.wire import Message, PackedTensors, label_by_position
from headcheck.grader.sandbox.worker.call_environment import isolate_random_state
from headcheck.properties.check import find_first_failure
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status, SubmissionFailed

if TYPE_CHECKING:
    from headcheck.grader.sandbox.worker.runtime import WorkerRuntime

MAX_TRANSCRIPT_NUMEL = 1 << 22
"""A transcript with more numbers than this is not kept, since sending it would save little time."""


class UnexpectedRequest(Exception):
    """A check makes a request that is not in its transcript."""


# ------------------------------------------------------------------------------------ writing down


def write_transcripts(
    exercise: Exercise, contract: Contract, cases: Mapping[Property, Sequence[Case]]
) -> dict[Property, Transcript]:
    """Run checks on the exercise's solution, and return the requests of each.

    There are no transcripts if the solution is missing or does not store its weights as `contract`
    says, nor for modules of a fixed size, which are too large to be called twice. Raises
    BadContract if the solution cannot be run.
    """
    as_known = contract.mappings == exercise.contract.mappings and contract.has(Capability.WIDTHS)
    if not as_known or not exercise.has_solution:
        return {}
    namespace = _run_solution(exercise)
    namespace[PLACEHOLDER_NAME] = namespace[exercise.contract.name]
    channel = WritingChannel(_make_runtime(namespace))
    harness = Harness(ChannelSubject(channel), contract)
    harness.contract = contract  # as it is known: nothing has to be found out by calls
    with isolate_random_state():
        checked = ((p, _write_transcript(channel, harness, p, cases[p])) for p in cases)
        return {prop: transcript for prop, transcript in checked if transcript is not None}


def _write_transcript(
    channel: "WritingChannel", harness: Harness, prop: Property, cases: Sequence[Case]
) -> Transcript | None:
    """Check a property on these cases, and return its requests if it holds."""
    verdict = fault.contain(functools.partial(find_first_failure, prop, harness, cases), None)
    transcript = channel.take_transcript()
    return transcript if verdict is not None and verdict.status is Status.PASSED else None


def _run_solution(exercise: Exercise) -> dict[str, Any]:
    path, name = exercise.folder / "solution.py", exercise.contract.name
    try:
        namespace = runpy.run_path(str(path))
    except Exception as error:
        what = f"{type(error).__name__}: {error}".partition("\n")[0]
        lines = [
            f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)
        ]
        line = lines[-1] if lines else getattr(error, "lineno", None)
        raise BadContract(f"{path}, line {line or 1}: it cannot be run: {what}") from error
    if name not in namespace:
        raise BadContract(f"{path}, line 1: it does not define `{name}`, as the contract says")
    return namespace


def _make_runtime(namespace: dict[str, Any]) -> "WorkerRuntime":
    """Return a runtime for the solution, which may run beside a thread that prints progress."""
    # Here, since a transcript that is on disk needs no worker in this process.
    from headcheck.grader.sandbox.worker.runtime import WorkerRuntime

    class SolutionRuntime(WorkerRuntime):
        def discard_output(self) -> contextlib.AbstractContextManager[None]:
            return contextlib.nullcontext()  # all threads share the standard streams

    return SolutionRuntime(namespace)


@dataclass(eq=False)
class WritingChannel(InProcessChannel):
    """A channel to trusted code that writes down its requests."""

    requests: list[Mapping[str, Any]] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)

    def request(self, op: str, meta: Mapping[str, Any], tensors: NamedTensors = ()) -> Message:
        reply = self.carry_out(op, meta, tensors)
        names = [name for name, _ in tensors]
        made = reply.meta.get("handle")
        self.requests.append({"op": op, "meta": dict(meta), "tensors": names, "makes": made})
        self.tensors.extend(tensor.detach().clone() for _, tensor in tensors)
        return reply

    def take_transcript(self) -> Transcript | None:
        """Return the requests since the last call, unless there are too many."""
        requests, tensors = self.requests, self.tensors
        self.requests, self.tensors = [], []
        if sum(tensor.numel() for tensor in tensors) > MAX_TRANSCRIPT_NUMEL:
            return None
        return Transcript(requests, PackedTensors(label_by_position(tensors)))


# --------------------------------------------------------------------------------------- replaying


@dataclass(eq=False)
class TranscriptReplay:
    """Sends transcripts to a submission, and runs the checks on its replies."""

    harness: Harness
    transcripts: Mapping[Property, Transcript]
    cases: Mapping[Property, Sequence[Case]]
    given_up: bool = False
    """whether a transcript could not be carried out, so that no others are tried"""

    def __post_init__(self) -> None:
        self.channel = ReplayChannel()
        self.replayed = self.harness.share_contract(ChannelSubject(self.channel))

    def establishes(self, prop: Property) -> bool:
        """Return whether the replies to a property's transcript show that it holds."""
        if self.given_up or prop not in self.transcripts:
            return False
        try:
            self._carry_out(self.transcripts[prop])
        except SubmissionFailed:
            self.given_up = True
            return False
        return self._confirms(prop)

    def _carry_out(self, transcript: Transcript) -> None:
        """Have a submission answer all requests of a transcript. Raises SubmissionFailed."""
        subject = self.harness.subject
        assert isinstance(subject, ChannelSubject)
        requests = transcript.name_definition(self.harness.contract.name)
        answer = subject.ask(RUN_TRANSCRIPT, {"requests": requests}, transcript.tensors)
        replies = split_replies(*answer, len(requests))
        sent = iter(tensor for _, tensor in transcript.tensors)
        self.channel.exchanges = iter(
            [
                Exchange(r, [next(sent) for _ in r["tensors"]], a)
                for r, a in zip(requests, replies, strict=True)
            ]
        )

    def _confirms(self, prop: Property) -> bool:
        before = dict(self.replayed.notes)
        check = functools.partial(find_first_failure, prop, self.replayed, self.cases[prop])
        try:
            verdict = fault.contain(check, None, UnexpectedRequest)
        except UnexpectedRequest:
            verdict = None
        if verdict is None or verdict.status is not Status.PASSED:
            self.replayed.notes = before
            return False
        self.harness.notes.update(self.replayed.notes)
        return True


def split_replies(reply: TranscriptReply, sent: NamedTensors, count: int) -> list[Message]:
    """Return the replies that one message holds. Raises SubmissionFailed if they are malformed."""
    parts = reply.replies
    if len(parts) != count or sum(len(p.tensors) for p in parts) != len(sent):
        raise SubmissionFailed(Status.CRASHED, "answered with other tensors than it announced")
    tensors = iter(tensor for _, tensor in sent)
    return [Message(0, p.op, p.meta, tuple((n, next(tensors)) for n in p.tensors)) for p in parts]


@dataclass(frozen=True, eq=False)
class Exchange:
    """A request of a transcript, and the reply to it."""

    request: Mapping[str, Any]
    tensors: Sequence[Tensor]
    reply: Message

    def answers(self, op: str, meta: Mapping[str, Any], tensors: NamedTensors) -> bool:
        """Return whether this is the request that was expected."""
        wanted = self.request["op"], self.request["meta"], self.request["tensors"]
        if (op, meta, [name for name, _ in tensors]) != wanted:
            return False
        return all(
            _are_same(one, other) for one, (_, other) in zip(self.tensors, tensors, strict=True)
        )


class ReplayChannel:
    """A channel that answers requests with the replies to a transcript."""

    def __init__(self) -> None:
        self.exchanges: Iterator[Exchange] = iter(())

    def request(self, op: str, meta: Mapping[str, Any], tensors: NamedTensors = ()) -> Message:
        """Return the next reply. Raises UnexpectedRequest if it is the reply to another request."""
        exchange = next(self.exchanges, None)
        if exchange is None or not exchange.answers(op, meta, tensors):
            raise UnexpectedRequest
        return exchange.reply


def _are_same(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors hold the same numbers, of the same dtype."""
    return one is other or (one.dtype == other.dtype and torch.equal(one, other))
