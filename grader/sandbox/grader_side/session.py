"""One submission in child processes, which are replaced when they end, within one budget."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from headcheck.grader.reading.code_patterns import CodePattern
from headcheck.grader.reading.edits import Edit
from headcheck.grader.reading.excerpts import SourceLines
from headcheck.grader.reading.submission import NO_SIBLINGS, Siblings
from headcheck.grader.sandbox import operations
from headcheck.grader.sandbox.grader_side.budget import (
    IMPORT_REQUEST,
    Budget,
    Purpose,
    describe_end,
)
from headcheck.grader.sandbox.grader_side.replies import get_message, is_out_of_memory
from headcheck.grader.sandbox.grader_side.servers import (
    MachineBusy,
    NoProcess,
    NotConfined,
    ProcessorTimeUsedUp,
    SandboxError,
    TooSlow,
)
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.sandbox.operations import (
    READ,
    Form,
    LoadReply,
    NamedTensors,
    Operation,
    PrintsReply,
    ValueReply,
)
from headcheck.grader.sandbox.timing import RequestTime
from headcheck.grader.sandbox.wire import Message
from headcheck.properties.violations.violation import Status, SubmissionFailed

MAX_TRIES = 3
"""the most attempts if the child is killed from outside"""
KILLED = f"its process was killed {MAX_TRIES} times from outside, or for lack of memory"

MAX_IMPORTS = 200
"""the most import statements that are run for one submission"""
MODULE_NAME = re.compile(r"[\w.]{1,100}")
TOO_SLOW_HINT = (
    "leave it out if the class does not need it, and keep what it runs under "
    '`if __name__ == "__main__"`'
)


class SubmissionChannel(Protocol):
    """A child process in which one submission runs, until it is closed or ends."""

    closed: bool
    killed_by_others: bool

    @property
    def cpu(self) -> float:
        """Seconds of processor time that it used; known once it is closed."""

    @property
    def last_request_time(self) -> RequestTime:
        """How the time of the last request was spent."""

    def request(
        self,
        op: str,
        meta: Mapping[str, Any],
        tensors: NamedTensors = (),
        within: float | None = None,
        idle: float = ...,
    ) -> Message:
        """Send a request and return its reply within a time. Raises SubmissionFailed, TooSlow."""

    def close(self) -> object:
        """End it."""


class ChildFactory(Protocol):
    """Starts such processes."""

    def start_child(self, limits: Limits, cpu_left: int | None = None) -> SubmissionChannel:
        """Start a new process, with the rest of the processor time."""


@dataclass(eq=False)
class Session:
    """A channel that starts a fresh child when the old one is gone.

    Objects made in the old child are gone with it: call `revive` before using their handles.
    """

    server: ChildFactory
    data: bytes
    kind: str
    limits: Limits
    siblings: Siblings = NO_SIBLINGS
    """the files that the submission imports from beside it"""
    by_hand: bool = False
    """whether the submission is kept from using torch's own attention"""
    silenced: tuple[str, ...] = ()
    """the paths of the parameters that are set to zero in every constructed module and stay zero"""
    edit: Edit | None = None
    """the edit with which the submission is loaded"""
    names: tuple[str, ...] = ()
    child: SubmissionChannel | None = None
    purpose: Purpose = Purpose.VERDICTS
    budgets: Mapping[Purpose, Budget] = field(
        default_factory=lambda: {purpose: Budget() for purpose in Purpose}
    )
    """the budgets that all sessions on the same file share"""
    killed_children: int = 0
    """how many earlier children were killed from outside"""
    ending: SubmissionFailed | None = None
    """the failure with which the current child ended"""

    @property
    def budget(self) -> Budget:
        """The budget from which this session takes its time."""
        return self.budgets[self.purpose]

    @property
    def used_s(self) -> float:
        """The seconds that calls have used so far, as in `CallClock`."""
        return self.budget.total_s

    @property
    def call_s(self) -> float:
        """The seconds that one call may take."""
        return self.limits.call_s

    def read_outline(self) -> Mapping[str, Any]:
        """Read the outline of the submission, without running it. Raises SubmissionFailed."""
        return self._retry_if_killed(self._start_child).value

    def load(self, *names: str) -> list[dict[str, Any]]:
        """Run definitions' statements; return the first's warnings. Raises SubmissionFailed."""
        self.names = names
        return self._retry_if_killed(self._send_load).remarks

    def find_code_patterns(self) -> tuple[CodePattern, ...]:
        """Find the steps of attention in the loaded code. Raises SubmissionFailed."""
        return self._ask(operations.FIND_CODE_PATTERNS, name=self.names[0]).value

    def list_slips(self, name: str, cell: int | None, line: int | None) -> tuple[Edit, ...]:
        """List the edits that may undo a slip. Raises SubmissionFailed."""
        if not self.is_alive:
            self.read_outline()
        return self._ask(operations.LIST_SLIPS, name=name, cell=cell, line=line).value

    def fetch_fingerprints(self, names: Sequence[str]) -> list[str]:
        """Fetch the fingerprints of these definitions. Raises SubmissionFailed."""
        if not self.is_alive:
            self.read_outline()
        return self._ask(operations.FINGERPRINT, names=list(names)).value

    def fetch_excerpts(self, places: Sequence[tuple[int | None, int]]) -> list[SourceLines]:
        """Fetch the lines around places, each a cell and a line in it. Raises SubmissionFailed.

        The submission may have replaced these lines, so they deserve no more trust than its
        answers.
        """
        return self._ask(operations.EXTRACT_EXCERPTS, places=list(places)).value

    def take_prints(self) -> PrintsReply:
        """Fetch what was printed since this was last called. Raises SubmissionFailed."""
        return self._ask(operations.TAKE_PRINTS)

    def _ask(self, operation: Operation[Form], **meta: Any) -> Form:
        return ChannelSubject(self).ask(operation, meta)[0]

    def start_successor(self, limits: Limits, **changes: Any) -> "Session":
        """Return a session for the same submission, with the process that has only read it."""
        other = replace(self._start_over(), limits=limits, names=(), **changes)
        if limits == self.limits and not self.names:
            self.child, other.child = None, self.child
        return other

    def open_search(self) -> "Session":
        """Return a session for the same definitions, with a process and a budget for searches."""
        return replace(self._start_over(), purpose=Purpose.SEARCH)

    def _start_over(self) -> "Session":
        """Return a session that has no child yet."""
        return replace(self, child=None, killed_children=0, ending=None)

    @property
    def is_alive(self) -> bool:
        """Whether there is a child that can answer."""
        return self.child is not None and not self.child.closed

    def iter_tries(self) -> Iterator[None]:
        """Yield once, and again after each try in which a child was killed from outside.

        The submission is not to blame for that: the kernel may have been short of memory. Raises
        MachineBusy if it happens each time.
        """
        for _ in range(MAX_TRIES):
            before = self.count_killed()
            yield
            if self.count_killed() == before:
                return
        raise MachineBusy(KILLED)

    def count_killed(self) -> int:
        """Return how many children were killed from outside headcheck."""
        return self.killed_children + (self.child is not None and self.child.killed_by_others)

    def revive(self) -> bool:
        """Start a child if there is none; return whether one started. Raises SubmissionFailed."""
        if self.is_alive:
            return False
        self._retry_if_killed(self._send_load if self.names else self._start_child)
        return True

    def request(self, op: str, meta: Mapping[str, Any], tensors: NamedTensors = ()) -> Message:
        """Send one request to the current child.

        Raises SubmissionFailed, of which BudgetExhausted is one, and MachineBusy. If the child has
        ended, the failure is that with which it ended: what tidies up after it asks once more.
        """
        if self.ending is not None and not self.is_alive:
            raise self.ending
        try:
            return self._request_within_budget(op, meta, tensors)
        except SubmissionFailed as failure:
            self.ending = None if self.is_alive else failure
            raise

    def _request_within_budget(
        self, op: str, meta: Mapping[str, Any], tensors: NamedTensors
    ) -> Message:
        self.budget.require_available(READ.name if self.child is None else op, self.limits)
        assert self.child is not None, "read or load before asking"
        endless = self.budget.endless
        try:
            reply = self._request_timed(op, meta, tensors)
        except TooSlow:
            alone = self.budget.endless > endless
            self.budget.require_available(op, self.limits, alone=alone)  # a more specific error
            raise
        except ProcessorTimeUsedUp as used_up:
            raise describe_end(used_up.message, alone=self.budget.endless > endless) from None
        self.budget.reply_bytes += reply.size
        if self.budget.reply_bytes > self.limits.replies:
            self.child.close()
            self.budget.require_available(op, self.limits)
        if reply.op == "raised" and self.limits.memory and is_out_of_memory(reply.meta):
            text = f"asked for more than {self.limits.memory >> 20} MiB of memory"
            message = f"{text}: {get_message(reply.meta)}"
            return replace(reply, meta={**reply.meta, "message": message})
        return reply

    def _request_timed(self, op: str, meta: Mapping[str, Any], tensors: NamedTensors) -> Message:
        """Send a request and charge its time to the budget. Raises SubmissionFailed."""
        assert self.child is not None, "request() has looked"
        late, calls = False, operations.count_calls(op, meta)
        within = self.budget.compute_timeout(op, self.limits, calls)
        idle = self.budget.compute_idle_timeout(op, self.limits)
        try:
            return self.child.request(op, meta, tensors, within, idle)
        except TooSlow:
            late = True
            raise
        finally:
            used = self.child.last_request_time
            self.budget.charge(op, self.limits, used, late=late, calls=calls)

    def close(self) -> None:
        """End the child."""
        if self.child is not None:
            self.child.close()
            self.killed_children += self.child.killed_by_others
            self.budget.end_process(self.child.cpu)
            self.child = self.ending = None

    def _retry_if_killed(self, action: Callable[[], Form]) -> Form:
        """Try again if the child was killed from outside.

        Raises SubmissionFailed, SandboxError, MachineBusy.
        """
        problem: SandboxError = MachineBusy(KILLED)
        for _ in range(MAX_TRIES):
            before = self.count_killed()
            try:
                return action()
            except NoProcess as refused:
                problem = MachineBusy(str(refused))
            except NotConfined as refused:
                problem = refused
            except SubmissionFailed:
                if self.count_killed() == before:
                    raise
        raise problem

    def _send_load(self) -> LoadReply:
        if self.child is None or self.child.closed:
            self._start_child()
        asked = {"names": self.names, "by_hand": self.by_hand, "silenced": self.silenced}
        asked |= {} if self.edit is None else {"edit": asdict(self.edit)}
        reply = self._ask(operations.LOAD, **asked)
        for _ in range(MAX_IMPORTS):
            if reply.importing is None:
                return reply
            self._import(reply.importing)
            reply = self._ask(operations.RESUME)
        raise SubmissionFailed(Status.CRASHED, f"imports more than {MAX_IMPORTS} modules")

    def _import(self, name: str) -> None:
        """Have the child import the next module, within its own time. Raises SubmissionFailed."""
        limit = self.budget.compute_timeout(IMPORT_REQUEST, self.limits)
        try:
            self._ask(operations.IMPORT_NEXT)
        except TooSlow:
            module = f"`{name}`" if MODULE_NAME.fullmatch(name) else "a module"
            text = f"importing {module} took longer than {limit:.3g} s; {TOO_SLOW_HINT}"
            raise SubmissionFailed(Status.TIMED_OUT, text) from None

    def _start_child(self) -> ValueReply[dict[str, Any]]:
        self.close()
        self.budget.require_available(READ.name, self.limits)
        size = len(self.data) + self.siblings.size
        left = self.budget.start_process(self.limits, size)
        self.child = self.server.start_child(self.limits, left)
        return ChannelSubject(self).ask(READ, *self._make_read_request())[0]

    def _make_read_request(self) -> tuple[dict[str, Any], NamedTensors]:
        """Return the first request to a process, with the submission and the files beside it."""
        beside, source = self.siblings, (("source", _make_tensor(self.data)),)
        if not beside.searched:
            return {"kind": self.kind}, source
        files = [("/".join(file.path), _make_tensor(file.data)) for file in beside.files]
        described = {
            "main": beside.main,
            "files": [path for path, _ in files],
            "problems": beside.problems,
            "searched": beside.searched,
        }
        return {"kind": self.kind, "siblings": described}, (*source, *files)


def _make_tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data or b"\n"), dtype=torch.uint8)
