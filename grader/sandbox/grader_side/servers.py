"""The examiner's side of the boundary: fork servers, and channels to confined children.

Any surprise is final. A late reply, a frame that is none, bytes that nobody asked for: the child
is killed, and the submission's property has failed.
"""

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec
from torch import Tensor

from grader.sandbox import wire
from grader.sandbox.grader_side import launch
from grader.sandbox.grader_side.launch import (
    EXIT_TIMEOUT_S,
    GONE,
    NOT_STARTED,
    START_TIMEOUT_S,
    ForkedProcess,
    Zygote,
    ZygoteGone,
)
from grader.sandbox.isolation import IsolationLevel, Layer
from grader.sandbox.limits import Limits
from grader.sandbox.timing import NO_TIME, ChildTimer, ProcessTimes, RequestTime
from grader.sandbox.wire import Message
from properties.violation import Status, SubmissionFailed

SERVER_ENTRY_POINT = "grader.sandbox.server_side.server:begin"
LONG_HEADERS = ("read", "units", "landmarks", "excerpts")
"""what these answer grows with the file; other answers say little besides their tensors"""


class SandboxError(Exception):
    """The sandbox itself does not work: our fault, never the submission's."""


class TooSlow(SubmissionFailed):
    """A call did not end in the time that it had."""

    def __init__(self, seconds: float) -> None:
        text = f"took more than {seconds:g} s for one call: is there an endless loop?"
        super().__init__(Status.TIMED_OUT, text)


class NotConfined(SandboxError):
    """A child ended before it was confined, and so before it had anything of the submission."""


class ServerHandle:
    """A fork server. Use as a context manager; leaving it ends every child.

    It refuses a machine that cannot confine, unless submissions are trusted. A zygote that was
    started ahead is taken over. A test may leave layers of the jail out.
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
        """Wait until it is there. Raises SandboxError when it does not start, or cannot confine."""
        try:
            left_out = [layer.value for layer in self.without]
            self._process = self.zygote.fork(
                SERVER_ENTRY_POINT, [self._theirs], os.getpid(), left_out
            )
            self.isolation_level = self._parse_isolation_level(self._receive())
            if not (self.isolation_level.is_confining or self.trusted):
                raise SandboxError(self.isolation_level.refusal)
            if self._receive() != b"ready":
                raise SandboxError(NOT_STARTED)
        except ZygoteGone as gone:
            self.close()
            raise SandboxError(str(gone)) from None
        except SandboxError:
            self.close()
            raise
        return self

    @property
    def process(self) -> ForkedProcess:
        """Itself, while it is there. Raises SandboxError."""
        if self._process is None:
            raise SandboxError(GONE)
        return self._process

    def _receive(self) -> bytes:
        self.control.settimeout(START_TIMEOUT_S)
        try:
            return self.control.recv(1 << 16)
        except (TimeoutError, ConnectionError):
            return b""

    def _parse_isolation_level(self, said: bytes) -> IsolationLevel:
        told = json.loads(said or b"{}")
        if "error" in told:
            raise SandboxError(told["error"])
        if not told:
            raise SandboxError(NOT_STARTED)
        return msgspec.convert(told, IsolationLevel)

    def start_child(self, limits: Limits, cpu_left: int | None = None) -> "ChildChannel":
        """A new process for one submission, with what is left of its processor time.

        Raises SandboxError when the server is gone, NotConfined when it cannot start one.
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
            said, fds, *_ = socket.recv_fds(self.control, 1024, 1)
        except OSError:  # which a timeout is
            self.control.close()  # an answer that came late would be taken for the next one
            said, fds = b"", []
        finally:
            theirs.close()
            os.close(status_theirs)
        if not fds:
            ours.close()
            os.close(status)
            why = said.decode(errors="replace")
            raise NotConfined(f"no process for a submission: {why}") if why else SandboxError(GONE)
        ours.setblocking(False)
        return ChildChannel(ours, fds[0], status, limits, left, ChildTimer(int(said)))

    def close(self) -> None:
        """End the server and with it every child."""
        self.control.close()
        self._theirs.close()
        process, self._process = self._process, None
        if process is not None:
            if not process.wait(EXIT_TIMEOUT_S):
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
    """what the last request took"""
    count: int = 0
    received_status: bytes = b""
    exit_status: "ExitStatus | None" = None
    closed: bool = False
    killed_by_others: bool = False
    """for no reason of ours: the kernel was short of memory, say"""

    def request(
        self,
        op: str,
        meta: Mapping[str, Any],
        tensors: tuple[tuple[str, Tensor], ...] = (),
        within: float | None = None,
    ) -> Message:
        """One request, one reply, within some seconds, or those of a call. Raises SubmissionFailed.

        TooSlow where the seconds are over.
        """
        self.last_request_time = NO_TIME
        if self.closed:
            raise SubmissionFailed(Status.CRASHED, "the process had ended before")
        self.count += 1
        patience = self.limits.call_s if within is None else within
        self.timer.begin()
        deadline = time.monotonic() + patience
        longest = wire.MAX_HEADER if op in LONG_HEADERS else wire.SHORT_HEADER
        try:
            wire.write(self.socket.fileno(), Message(self.count, op, meta, tensors), deadline)
            reply = wire.read(self.socket.fileno(), deadline, self.limits.reply, longest)
        except TimeoutError:
            self.close()
            raise TooSlow(patience) from None
        except (EOFError, OSError):
            raise self._diagnose_exit() from None
        except wire.BadFrame as error:
            self.close()
            raise SubmissionFailed(Status.CRASHED, f"broke off the conversation: {error}") from None
        finally:
            self.last_request_time = self.timer.end(
                None if self.exit_status is None else self.exit_status.times
            )
        self._validate(reply)
        return reply

    @property
    def cpu(self) -> float:
        """Seconds of processor time that it used, as far as is known: 0 until it has ended."""
        return 0.0 if self.exit_status is None else self.exit_status.cpu

    def _validate(self, reply: Message) -> None:
        if reply.id != self.count or reply.op not in ("ok", "raised") or self._has_unread_data():
            self.close()
            raise SubmissionFailed(Status.CRASHED, "answered what was not asked")

    def _has_unread_data(self) -> bool:
        """Whether it says more than it was asked. That it has ended since says nothing of that."""
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except (BlockingIOError, ConnectionError):
            return False

    def _diagnose_exit(self) -> SubmissionFailed:
        """The child ended in the middle of a call: say how.

        Raises SandboxError when the server is not there to tell, NotConfined.
        """
        killed = not self.close(moment=1.0)
        if self.exit_status is None:
            raise SandboxError(GONE)
        if not self.exit_status.confined and not killed:
            raise NotConfined(f"a child could not be confined: {self.exit_status.problem}")
        by_others = self.exit_status.signal == signal.SIGKILL and not killed
        # The kernel counts whole ticks against the limit, and more exactly when it tells.
        if by_others and self.exit_status.cpu > self.cpu_left / 2:
            text = f"used more than {self.limits.cpu_s} s of processor time"
            return SubmissionFailed(Status.TIMED_OUT, text)
        self.killed_by_others = by_others
        if self.exit_status.signal == signal.SIGKILL and killed:
            return SubmissionFailed(Status.CRASHED, "broke off the conversation")
        if self.exit_status.signal:
            name = signal.strsignal(self.exit_status.signal) or self.exit_status.signal
            return SubmissionFailed(Status.CRASHED, f"the process died ({name})")
        return SubmissionFailed(Status.CRASHED, "the process ended itself (os._exit, quit?)")

    def close(self, moment: float = 0.05) -> bool:
        """Let go of everything; whether the child ended by itself, in the moment it is given."""
        if self.closed:
            return True
        self.closed = True
        self.socket.close()
        by_itself = wait_readable(self.pidfd, moment)  # the server may be late to tell
        if not by_itself:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        self._read_status(EXIT_TIMEOUT_S)
        os.close(self.pidfd)
        os.close(self.status)
        return by_itself

    def _read_status(self, within: float) -> None:
        """Take in what is said on the status pipe, until the end is told or time is up."""
        limit = time.monotonic() + within
        while self.exit_status is None and wait_readable(
            self.status, max(0.0, limit - time.monotonic())
        ):
            said = os.read(self.status, 4096)
            self.received_status += said
            self.exit_status = parse_exit_status(self.received_status)
            if not said:
                return


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a child ended."""

    signal: int
    cpu: float
    memory: int
    """the most it held, in KiB"""
    queued: float | None
    """seconds in which it waited for a processor, if that is known"""
    confined: bool
    problem: str

    @property
    def times(self) -> ProcessTimes:
        """Its times."""
        return ProcessTimes(self.cpu, self.queued)


def parse_exit_status(told: bytes) -> ExitStatus | None:
    """What a status pipe tells: `+` or `-` and a problem, from the child, then the server's JSON.

    The child cannot tell anything more once it runs a submission.
    """
    said, brace, rest = told.rpartition(b"{")
    if not rest.endswith(b"}"):
        return None
    confined = said == b"+"
    problem = said.removeprefix(b"-").decode("utf-8", "replace") or "it ended before it was"
    known = json.loads(brace + rest)
    return ExitStatus(**known, confined=confined, problem="" if confined else problem)


def wait_readable(fd: int, within: float) -> bool:
    """Whether there is something to be read, or an end, within some seconds."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(within * 1000))
