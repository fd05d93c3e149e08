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
    DYING_S,
    GONE,
    NOT_STARTED,
    START_S,
    Forked,
    Zygote,
    ZygoteGone,
)
from grader.sandbox.isolation import Layer, Rung
from grader.sandbox.limits import Limits
from grader.sandbox.timing import NOTHING, Pace, Ran, Took
from grader.sandbox.wire import Message
from properties.violation import Status, SubmissionFailed

SERVER = "grader.sandbox.server_side.server:begin"
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


class Server:
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
        self.rung = Rung("C", ())
        self.zygote = ahead or launch.start()
        self.control, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process: Forked | None = None

    def ready(self) -> "Server":
        """Wait until it is there. Raises SandboxError when it does not start, or cannot confine."""
        try:
            left_out = [layer.value for layer in self.without]
            self._process = self.zygote.fork(SERVER, [self._theirs], os.getpid(), left_out)
            self.rung = self._rung(self._said())
            if not (self.rung.confines or self.trusted):
                raise SandboxError(self.rung.refusal)
            if self._said() != b"ready":
                raise SandboxError(NOT_STARTED)
        except ZygoteGone as gone:
            self.close()
            raise SandboxError(str(gone)) from None
        except SandboxError:
            self.close()
            raise
        return self

    @property
    def process(self) -> Forked:
        """Itself, while it is there. Raises SandboxError."""
        if self._process is None:
            raise SandboxError(GONE)
        return self._process

    def _said(self) -> bytes:
        self.control.settimeout(START_S)
        try:
            return self.control.recv(1 << 16)
        except (TimeoutError, ConnectionError):
            return b""

    def _rung(self, said: bytes) -> Rung:
        told = json.loads(said or b"{}")
        if "error" in told:
            raise SandboxError(told["error"])
        if not told:
            raise SandboxError(NOT_STARTED)
        return msgspec.convert(told, Rung)

    def child(self, limits: Limits, cpu_left: int | None = None) -> "Child":
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
        return Child(ours, fds[0], status, limits, left, Pace(int(said)))

    def close(self) -> None:
        """End the server and with it every child."""
        self.control.close()
        self._theirs.close()
        process, self._process = self._process, None
        if process is not None:
            if not process.wait(DYING_S):
                process.kill()
            process.close()
        self.zygote.close()

    def __enter__(self) -> "Server":
        return self.ready()

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(eq=False)
class Child:
    """The channel to one confined child."""

    socket: socket.socket
    pidfd: int
    status: int
    limits: Limits
    cpu_left: int
    pace: Pace
    took: Took = NOTHING
    """what the last request took"""
    count: int = 0
    told: bytes = b""
    ended: "Ended | None" = None
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
        self.took = NOTHING
        if self.closed:
            raise SubmissionFailed(Status.CRASHED, "the process had ended before")
        self.count += 1
        patience = self.limits.call_s if within is None else within
        self.pace.begin()
        deadline = time.monotonic() + patience
        longest = wire.MAX_HEADER if op in LONG_HEADERS else wire.SHORT_HEADER
        try:
            wire.write(self.socket.fileno(), Message(self.count, op, meta, tensors), deadline)
            reply = wire.read(self.socket.fileno(), deadline, self.limits.reply, longest)
        except TimeoutError:
            self.close()
            raise TooSlow(patience) from None
        except (EOFError, OSError):
            raise self._died() from None
        except wire.BadFrame as error:
            self.close()
            raise SubmissionFailed(Status.CRASHED, f"broke off the conversation: {error}") from None
        finally:
            self.took = self.pace.end(None if self.ended is None else self.ended.ran)
        self._believe(reply)
        return reply

    @property
    def cpu(self) -> float:
        """Seconds of processor time that it used, as far as is known: 0 until it has ended."""
        return 0.0 if self.ended is None else self.ended.cpu

    def _believe(self, reply: Message) -> None:
        if reply.id != self.count or reply.op not in ("ok", "raised") or self._unasked():
            self.close()
            raise SubmissionFailed(Status.CRASHED, "answered what was not asked")

    def _unasked(self) -> bool:
        """Whether it says more than it was asked. That it has ended since says nothing of that."""
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except (BlockingIOError, ConnectionError):
            return False

    def _died(self) -> SubmissionFailed:
        """The child ended in the middle of a call: say how.

        Raises SandboxError when the server is not there to tell, NotConfined.
        """
        killed = not self.close(moment=1.0)
        if self.ended is None:
            raise SandboxError(GONE)
        if not self.ended.confined and not killed:
            raise NotConfined(f"a child could not be confined: {self.ended.problem}")
        by_others = self.ended.signal == signal.SIGKILL and not killed
        # The kernel counts whole ticks against the limit, and more exactly when it tells.
        if by_others and self.ended.cpu > self.cpu_left / 2:
            text = f"used more than {self.limits.cpu_s} s of processor time"
            return SubmissionFailed(Status.TIMED_OUT, text)
        self.killed_by_others = by_others
        if self.ended.signal == signal.SIGKILL and killed:
            return SubmissionFailed(Status.CRASHED, "broke off the conversation")
        if self.ended.signal:
            name = signal.strsignal(self.ended.signal) or self.ended.signal
            return SubmissionFailed(Status.CRASHED, f"the process died ({name})")
        return SubmissionFailed(Status.CRASHED, "the process ended itself (os._exit, quit?)")

    def close(self, moment: float = 0.05) -> bool:
        """Let go of everything; whether the child ended by itself, in the moment it is given."""
        if self.closed:
            return True
        self.closed = True
        self.socket.close()
        by_itself = readable(self.pidfd, moment)  # the server may be late to tell
        if not by_itself:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        self._listen(DYING_S)
        os.close(self.pidfd)
        os.close(self.status)
        return by_itself

    def _listen(self, within: float) -> None:
        """Take in what is said on the status pipe, until the end is told or time is up."""
        limit = time.monotonic() + within
        while self.ended is None and readable(self.status, max(0.0, limit - time.monotonic())):
            said = os.read(self.status, 4096)
            self.told += said
            self.ended = ended_of(self.told)
            if not said:
                return


@dataclass(frozen=True, slots=True)
class Ended:
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
    def ran(self) -> Ran:
        """Its times."""
        return Ran(self.cpu, self.queued)


def ended_of(told: bytes) -> Ended | None:
    """What a status pipe tells: `+` or `-` and a problem, from the child, then the server's JSON.

    The child cannot tell anything more once it runs a submission.
    """
    said, brace, rest = told.rpartition(b"{")
    if not rest.endswith(b"}"):
        return None
    confined = said == b"+"
    problem = said.removeprefix(b"-").decode("utf-8", "replace") or "it ended before it was"
    known = json.loads(brace + rest)
    return Ended(**known, confined=confined, problem="" if confined else problem)


def readable(fd: int, within: float) -> bool:
    """Whether there is something to be read, or an end, within some seconds."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(within * 1000))
