"""Handles on fork servers, and channels to confined children.

Any protocol violation is final: after a late reply, an invalid frame or unexpected bytes, the child
is killed, and the submission fails the property.
"""

import contextlib
import json
import math
import os
import signal
import socket
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec
from torch import Tensor

from headcheck.grader import UserError
from headcheck.grader.sandbox import operations, wire
from headcheck.grader.sandbox.grader_side import launch
from headcheck.grader.sandbox.grader_side.launch import (
    ForkedProcess,
    Zygote,
    ZygoteGone,
    wait_readable,
)
from headcheck.grader.sandbox.isolation import IsolationLevel, Layer
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.sandbox.operations import EXTRACT_EXCERPTS, FIND_CODE_PATTERNS, READ
from headcheck.grader.sandbox.timing import (
    NO_TIME,
    ChildTimer,
    OutOfPatience,
    ProcessTimes,
    RequestTime,
)
from headcheck.grader.sandbox.wire import Message
from headcheck.properties.violations.violation import Status, SubmissionFailed

SERVER_ENTRY_POINT = "headcheck.grader.sandbox.server_side.server:begin"
LARGE_FRACTION = 1 / 2
"""a process that used more than this fraction of its memory is to blame if the kernel kills it"""
LAST_S = 1.0
"""how many seconds a child that closed its socket has to end by itself"""
LONG_HEADERS = tuple(each.name for each in (READ, FIND_CODE_PATTERNS, EXTRACT_EXCERPTS))
"""requests whose replies grow with the file; other replies hold little besides tensors"""


class SandboxError(UserError):
    """The sandbox itself failed, which is never the submission's fault."""


class MachineBusy(SandboxError):
    """The machine, not the submission, is to blame for a missing answer, so there is no verdict.

    The message says what happened; running the same command again repeats the attempt.
    """


class TooSlow(SubmissionFailed):
    """A call used up its time."""

    def __init__(self, seconds: float, calls: int = 1) -> None:
        text = f"took more than {seconds:g} s for one call: is there an endless loop?"
        if calls > 1:
            text = f"took more than {seconds:g} s for {calls} calls"
        super().__init__(Status.TIMED_OUT if calls == 1 else Status.NOT_ASKED, text)


class ProcessorTimeUsedUp(SubmissionFailed):
    """The processor time of the file was used up, in one call or in many."""

    def __init__(self, seconds: float) -> None:
        super().__init__(Status.TIMED_OUT, f"used more than {seconds:g} s of processor time")


class NotConfined(SandboxError):
    """A child ended before it was confined, and so before it received the submission."""


class NoProcess(NotConfined):
    """The machine currently has no memory for another process, or has too many processes."""


class ServerHandle:
    """A fork server. Use as a context manager; leaving it ends every child.

    It raises SandboxError on a machine that cannot confine, unless submissions are trusted. `ahead`
    is a zygote that was started earlier; it is closed together with the server. `without` lists the
    layers that a test leaves out of the jail.
    """

    def __init__(
        self,
        *,
        trusted: bool = False,
        without: Collection[Layer] = (),
        ahead: Zygote | None = None,
    ) -> None:
        self.trusted = trusted
        self.without = without
        self.isolation_level = IsolationLevel("C", ())
        self.zygote = ahead or launch.start_zygote()
        self.control, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process: ForkedProcess | None = None

    def wait_until_ready(self) -> "ServerHandle":
        """Wait until the server accepts requests. Raises SandboxError if it cannot start."""
        try:
            left_out = [layer.value for layer in self.without]
            self._process = self.zygote.fork(
                SERVER_ENTRY_POINT, [self._theirs], os.getpid(), left_out
            )
            self.isolation_level = self._parse_isolation_level(self._receive())
            if not (self.isolation_level.is_confining or self.trusted):
                raise SandboxError(self.isolation_level.refusal)
            if self._receive() != b"ready":
                raise SandboxError(launch.NOT_STARTED)
        except ZygoteGone as gone:
            self.close()
            raise SandboxError(str(gone)) from None
        except SandboxError:
            self.close()
            raise
        return self

    @property
    def process(self) -> ForkedProcess:
        """The running server process. Raises SandboxError if it has been closed."""
        if self._process is None:
            raise SandboxError(launch.GONE)
        return self._process

    def _receive(self) -> bytes:
        self.control.settimeout(launch.START_TIMEOUT_S)
        try:
            return self.control.recv(1 << 16)
        except (TimeoutError, ConnectionError):
            return b""

    def _parse_isolation_level(self, message: bytes) -> IsolationLevel:
        level = json.loads(message or b"{}")
        if "error" in level:
            raise SandboxError(level["error"])
        if not level:
            raise SandboxError(launch.NOT_STARTED)
        return msgspec.convert(level, IsolationLevel)

    def start_child(self, limits: Limits, cpu_left: int | None = None) -> "ChildChannel":
        """Start a process for one submission, with what is left of its processor time.

        Raises SandboxError if the server has ended, NoProcess if it cannot start a process.
        """
        left = limits.cpu_s if cpu_left is None else cpu_left
        ours, theirs = socket.socketpair()
        status, status_theirs = os.pipe()
        try:
            socket.send_fds(
                self.control,
                [json.dumps(asdict(replace(limits, cpu_s=left))).encode()],
                [theirs.fileno(), status_theirs],
            )
            reply, fds, *_ = socket.recv_fds(self.control, 1024, 1)
        except OSError:  # includes timeouts
            self.control.close()  # a late reply would be taken for the next one
            reply, fds = b"", []
        finally:
            theirs.close()
            os.close(status_theirs)
        if not fds:
            ours.close()
            os.close(status)
            if not reply:
                raise SandboxError(launch.GONE)
            why = reply.decode(errors="replace")
            raise NoProcess(f"no process for a submission: {why}")
        ours.setblocking(False)
        return ChildChannel(ours, fds[0], status, limits, left, ChildTimer(int(reply)))

    def close(self) -> None:
        """End the server and with it every child."""
        self.control.close()
        self._theirs.close()
        process, self._process = self._process, None
        if process is not None:
            if not process.wait(launch.EXIT_TIMEOUT_S):
                process.kill()
            process.close()
        self.zygote.close()

    def __enter__(self) -> "ServerHandle":
        return self.wait_until_ready()

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(eq=False)
class ChildChannel:
    """The channel to one confined child."""

    socket: socket.socket
    pidfd: int
    status: int
    limits: Limits
    cpu_left: int
    timer: ChildTimer
    last_request_time: RequestTime = NO_TIME
    count: int = 0
    """requests so far"""
    received_status: bytes = b""
    exit_status: "ExitStatus | None" = None
    closed: bool = False
    killed_by_others: bool = False
    """whether another process killed the child, or the kernel did, for instance when short of
    memory"""

    def request(
        self,
        op: str,
        meta: Mapping[str, Any],
        tensors: tuple[tuple[str, Tensor], ...] = (),
        within: float | None = None,
        idle: float = math.inf,
    ) -> Message:
        """Make one request, with a limit in seconds, by default that of a call.

        During `idle` of these seconds the child may sleep. Raises SubmissionFailed, of which
        TooSlow is one, and MachineBusy.
        """
        self.last_request_time = NO_TIME
        if self.closed:
            raise SubmissionFailed(Status.CRASHED, "the process had ended before")
        self.count += 1
        timeout = self.limits.call_s if within is None else within
        self.timer.begin(timeout, idle)
        fd, wait_more = self.socket.fileno(), self.timer.wait_more
        max_header = wire.MAX_HEADER if op in LONG_HEADERS else wire.SHORT_HEADER
        try:
            wire.write(fd, Message(self.count, op, meta, tensors), wait_more)
            reply = wire.read(fd, wait_more, self.limits.reply, max_header)
        except TimeoutError:
            self.close()
            raise TooSlow(min(timeout, idle), operations.count_calls(op, meta)) from None
        except OutOfPatience:
            self.close()
            raise MachineBusy("its process got too little processor time to answer") from None
        except (EOFError, OSError):
            raise self._diagnose_exit() from None
        except wire.BadFrame as error:
            self.close()
            raise SubmissionFailed(Status.CRASHED, f"broke off the conversation: {error}") from None
        finally:
            status = self.exit_status
            times = None if status is None else ProcessTimes(status.cpu, status.queued)
            self.last_request_time = self.timer.end(times)
        self._validate(reply)
        return reply

    @property
    def cpu(self) -> float:
        """Seconds of processor time that the child used; 0 until it has ended."""
        return 0.0 if self.exit_status is None else self.exit_status.cpu

    def _validate(self, reply: Message) -> None:
        if reply.id != self.count or reply.op not in ("ok", "raised") or self._has_unread_data():
            self.close()
            raise SubmissionFailed(Status.CRASHED, "answered something that was not asked")

    def _has_unread_data(self) -> bool:
        """Whether the child sent more than one reply. Closing the connection is not a reply."""
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except (BlockingIOError, ConnectionError):
            return False

    def _diagnose_exit(self) -> SubmissionFailed:
        """Return why the child ended in the middle of a call.

        Raises SandboxError if the server has ended and cannot report the reason, and NotConfined if
        the child was not confined yet.
        """
        killed = not self._close_after(LAST_S)
        status = self.exit_status
        if status is None:
            raise SandboxError(launch.GONE)
        if not status.confined and not killed:
            raise NotConfined(f"a child could not be confined: {status.problem}")
        by_others = status.signal == signal.SIGKILL and not killed
        # The limit counts whole ticks, but the reported time is exact: it may be below the limit.
        if by_others and status.cpu > self.cpu_left / 2:
            return ProcessorTimeUsedUp(self.limits.cpu_s)
        limit = math.inf if self.limits.memory is None else self.limits.memory
        if by_others and status.memory << 10 > limit * LARGE_FRACTION:  # the likeliest reason
            text = f"its process was killed when it held {status.memory >> 10} MiB of memory"
            return SubmissionFailed(Status.OUT_OF_MEMORY, text)
        self.killed_by_others = by_others
        if status.signal == signal.SIGKILL and killed:
            return SubmissionFailed(Status.CRASHED, "broke off the conversation")
        if status.signal:
            name = signal.strsignal(status.signal) or status.signal
            return SubmissionFailed(Status.CRASHED, f"the process died ({name})")
        text = "the process ended itself: remove calls that end Python, such as os._exit or quit"
        return SubmissionFailed(Status.CRASHED, text)

    def close(self) -> None:
        """End the child."""
        self._close_after(0.05)

    def _close_after(self, grace: float) -> bool:
        """End the child; return whether it ended by itself before it had used this many seconds."""
        if self.closed:
            return True
        self.closed = True
        self.socket.close()
        ended = self._ends_within(grace)
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        self._read_status(launch.START_TIMEOUT_S)  # the server may be late on a busy machine
        os.close(self.pidfd)
        os.close(self.status)
        return ended

    def _ends_within(self, seconds: float) -> bool:
        """Return whether the child ends before it has computed or slept for this many seconds."""
        last = ChildTimer.start_now(self.timer.pid, seconds)
        with contextlib.suppress(TimeoutError, OutOfPatience):
            while not wait_readable(self.pidfd, last.wait_more()):
                pass
            return True
        return False

    def _read_status(self, timeout: float) -> None:
        """Read the status pipe until the child's end is reported or the time is up."""
        deadline = time.monotonic() + timeout
        while self.exit_status is None and wait_readable(
            self.status, max(0.0, deadline - time.monotonic())
        ):
            data = os.read(self.status, 4096)
            self.received_status += data
            self.exit_status = parse_exit_status(self.received_status)
            if not data:
                return


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """The way in which a child ended."""

    signal: int
    cpu: float
    memory: int
    """peak memory in KiB"""
    queued: float | None
    """seconds of queueing for a processor, if known"""
    confined: bool
    problem: str


def parse_exit_status(data: bytes) -> ExitStatus | None:
    """Parse a status pipe: `+`, or `-` and a problem, from the child, then JSON from the server.

    Once a child runs a submission, it cannot write to the pipe any more.
    """
    confinement, brace, rest = data.rpartition(b"{")
    if not rest.endswith(b"}"):
        return None
    confined = confinement == b"+"
    problem = confinement.removeprefix(b"-").decode("utf-8", "replace") or "it ended before it was"
    end = json.loads(brace + rest)
    return ExitStatus(**end, confined=confined, problem="" if confined else problem)
