"""One submission at the other end of a channel, brought back when its process is gone."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from grader.reading.code_patterns import CodePattern
from grader.reading.excerpts import SourceLines
from grader.reading.token_units import Unit
from grader.sandbox.grader_side.budget import Budget
from grader.sandbox.grader_side.servers import NotConfined, TooSlow
from grader.sandbox.grader_side.subject import (
    get_message,
    is_out_of_memory,
    make_failure,
    parse_reply,
)
from grader.sandbox.limits import Limits
from grader.sandbox.timing import RequestTime
from grader.sandbox.wire import Message
from properties.violation import SubmissionFailed

MAX_TRIES = 3
"""how often something is tried when its process is killed by others, the first time included"""


class SubmissionChannel(Protocol):
    """A place where one submission runs, until it is closed by us or by what it did."""

    closed: bool
    killed_by_others: bool

    @property
    def cpu(self) -> float:
        """Seconds of processor time, once it is closed."""

    @property
    def last_request_time(self) -> RequestTime:
        """What it did in the time of the last request."""

    def request(
        self,
        op: str,
        meta: Mapping[str, Any],
        tensors: tuple[tuple[str, Tensor], ...] = (),
        within: float | None = None,
    ) -> Message:
        """One request, one reply, within some seconds. Raises SubmissionFailed, TooSlow."""

    def close(self) -> object:
        """End it."""


class ChildFactory(Protocol):
    """Makes such places."""

    def start_child(self, limits: Limits, cpu_left: int | None = None) -> SubmissionChannel:
        """A fresh one, with what is left of the processor time."""


@dataclass(frozen=True)
class _LoadReply:
    remarks: list[dict[str, Any]]


@dataclass(frozen=True)
class _CodePatternsReply:
    landmarks: list[CodePattern]


@dataclass(frozen=True)
class _UnitsReply:
    units: list[Unit]


@dataclass(frozen=True)
class _ExcerptsReply:
    excerpts: list[SourceLines]


@dataclass(eq=False)
class Session:
    """A channel that starts a fresh child when the old one is gone.

    Objects made in the old child are gone with it; whoever holds their handles asks `revive` first.
    """

    server: ChildFactory
    data: bytes
    kind: str
    limits: Limits
    by_hand: bool = False
    """whether torch's own attention is out of the submission's reach"""
    names: tuple[str, ...] = ()
    child: SubmissionChannel | None = None
    budget: Budget = field(default_factory=Budget)
    """what all sessions on the same file have used"""
    killed_children: int = 0
    """earlier children that were ended from outside"""

    def read_outline(self) -> Mapping[str, Any]:
        """The outline of the submission, read without running it. Raises SubmissionFailed."""
        return dict(self._retry_if_killed(self._start_child).meta["outline"])

    def load(self, *names: str) -> list[dict[str, Any]]:
        """Run what definitions need; the remarks on the first. Raises SubmissionFailed."""
        self.names = names
        return parse_reply(self._retry_if_killed(self._send_load), _LoadReply).remarks

    def find_code_patterns(self) -> list[CodePattern]:
        """Where in what was loaded the steps of attention are. Raises SubmissionFailed."""
        return parse_reply(
            self._ask("landmarks", {"name": self.names[0]}), _CodePatternsReply
        ).landmarks

    def fetch_units(self) -> list[Unit]:
        """What was read, as words that can be compared. Raises SubmissionFailed."""
        return parse_reply(self._ask("units", {}), _UnitsReply).units

    def fetch_excerpts(self, places: Sequence[tuple[int | None, int]]) -> list[SourceLines]:
        """The lines around places of the source: cells, and lines of them. Raises SubmissionFailed.

        Whatever comes is the submission's word.
        """
        return parse_reply(self._ask("excerpts", {"places": list(places)}), _ExcerptsReply).excerpts

    def start_successor(self, limits: Limits, *, by_hand: bool = False) -> "Session":
        """A session for the same submission, in the process of this one if that only read it."""
        other = Session(self.server, self.data, self.kind, limits, by_hand, budget=self.budget)
        if limits == self.limits and not self.names:
            self.child, other.child = None, self.child
        return other

    @property
    def is_alive(self) -> bool:
        """Whether there is a child to ask."""
        return self.child is not None and not self.child.closed

    def iter_tries(self) -> Iterator[None]:
        """Yield once, and again each time that a child was ended from outside meanwhile.

        That is nothing to hold against a submission: the kernel was short of memory, say.
        """
        for _ in range(MAX_TRIES):
            before = self._count_killed()
            yield
            if self._count_killed() == before:
                return

    def _count_killed(self) -> int:
        """How many children were ended from outside."""
        return self.killed_children + (self.child is not None and self.child.killed_by_others)

    def revive(self) -> bool:
        """Whether the child was gone and a fresh one has been made. Raises SubmissionFailed."""
        if self.is_alive:
            return False
        self._retry_if_killed(self._send_load if self.names else self._start_child)
        return True

    def request(
        self, op: str, meta: Mapping[str, Any], tensors: tuple[tuple[str, Tensor], ...] = ()
    ) -> Message:
        """One request to the present child. Raises SubmissionFailed, UsedUp."""
        self.budget.require_available("read" if self.child is None else op, self.limits)
        assert self.child is not None, "read or load before asking"
        try:
            reply = self._request_timed(op, meta, tensors)
        except TooSlow:
            self.budget.require_available(op, self.limits)  # it was the last one: this says more
            raise
        self.budget.reply_bytes += reply.size
        if self.budget.reply_bytes > self.limits.replies:
            self.child.close()
            self.budget.require_available(op, self.limits)
        if reply.op == "raised" and self.limits.memory and is_out_of_memory(reply.meta):
            text = f"asked for more than {self.limits.memory >> 20} MiB of memory"
            return replace(
                reply, meta={**reply.meta, "message": f"{text}: {get_message(reply.meta)}"}
            )
        return reply

    def _request_timed(
        self, op: str, meta: Mapping[str, Any], tensors: tuple[tuple[str, Tensor], ...]
    ) -> Message:
        """The reply, charged to the budget. Raises SubmissionFailed."""
        assert self.child is not None, "request() has looked"
        began, late = time.monotonic(), False
        try:
            return self.child.request(
                op, meta, tensors, self.budget.compute_timeout(op, self.limits)
            )
        except TooSlow:
            late = True
            raise
        finally:
            wall = time.monotonic() - began
            self.budget.charge(op, self.limits, wall, self.child.last_request_time, late=late)

    def close(self) -> None:
        """End the child."""
        if self.child is not None:
            self.child.close()
            self.killed_children += self.child.killed_by_others
            self.budget.end_process(self.child.cpu)
            self.child = None

    def _retry_if_killed(self, action: Callable[[], Message]) -> Message:
        """Try again where the child was killed from outside.

        Raises SubmissionFailed, SandboxError.
        """
        for _ in range(MAX_TRIES - 1):
            before = self._count_killed()
            try:
                return action()
            except NotConfined:
                continue
            except SubmissionFailed:
                if self._count_killed() == before:
                    raise
        return action()

    def _send_load(self) -> Message:
        if self.child is None or self.child.closed:
            self._start_child()
        return self._ask("load", {"names": self.names, "by_hand": self.by_hand})

    def _start_child(self) -> Message:
        self.close()
        self.budget.require_available("read", self.limits)
        left = self.budget.start_process(self.limits, len(self.data))
        self.child = self.server.start_child(self.limits, left)
        source = torch.frombuffer(bytearray(self.data or b"\n"), dtype=torch.uint8)
        return self._ask("read", {"kind": self.kind}, (("source", source),))

    def _ask(
        self, op: str, meta: Mapping[str, Any], tensors: tuple[tuple[str, Tensor], ...] = ()
    ) -> Message:
        reply = self.request(op, meta, tensors)
        if reply.op == "raised":
            raise make_failure(reply.meta)
        return reply
