"""Start a zygote and have it fork processes.

A zygote takes a while to warm up, so a command starts it first. This module imports nothing heavy,
so that the command and the zygote can then load torch at the same time.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headcheck.grader import terminal
from headcheck.grader.location import HEADCHECK
from headcheck.grader.sandbox.limits import SINGLE_THREAD_ENV

START_TIMEOUT_S = 120.0
EXIT_TIMEOUT_S = 5.0
NOT_STARTED = (
    "the fork server did not start: its message is above, or it was killed; give the command again"
)
GONE = "the fork server is gone: it was killed, or memory ran out; give the command again"


class ZygoteGone(Exception):
    """The zygote ended, does not answer, or cannot fork; the message says what to do."""


@dataclass(eq=False)
class ForkedProcess:
    """A process that was forked, with a pidfd, which never refers to another process."""

    pid: int
    pidfd: int

    def kill(self) -> None:
        """Kill the process, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def wait(self, timeout: float) -> bool:
        """Wait at most this many seconds; return whether the process has ended."""
        return wait_readable(self.pidfd, timeout)

    def close(self) -> None:
        """Close the pidfd."""
        os.close(self.pidfd)


@dataclass(eq=False)
class ChildProcess(ForkedProcess):
    """A zygote that this process started and must reap."""

    reap: Callable[[], object]
    """waits for the process to end"""

    def close(self) -> None:
        """Wait for its end, and close the pidfd."""
        self.reap()
        super().close()


def wait_readable(fd: int, timeout: float) -> bool:
    """Wait at most this many seconds; return whether there is data or an end of file to read."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout * 1000))


@dataclass(eq=False)
class Zygote:
    """A zygote, warm or starting. Use as a context manager; leaving it ends what it forked."""

    control: socket.socket
    process: ChildProcess | None = None
    """None if another process started the zygote"""
    warm: bool = False
    """whether the zygote has replied once"""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fork(
        self, call: str, files: Sequence[socket.socket | int], *arguments: object
    ) -> ForkedProcess:
        """Fork a process that calls "module:name" with the zygote's pid, the files and arguments.

        The files are passed on and closed here. Raises ZygoteGone.
        """
        request = json.dumps({"call": call, "arguments": arguments}).encode()
        fds = [each if isinstance(each, int) else each.detach() for each in files]
        try:
            reply, pidfds = self._send_request(request, fds)
        finally:
            for fd in fds:
                os.close(fd)
        if reply and not pidfds:
            raise ZygoteGone(f"no process can be started: {reply}; give the command again")
        if not reply:
            raise ZygoteGone(GONE if self.warm else NOT_STARTED)
        self.warm = True
        return ForkedProcess(int(reply), pidfds[0])

    def _send_request(self, request: bytes, fds: Sequence[int]) -> tuple[str, list[int]]:
        """Return the reply to a request ("" if there is none) and the descriptors sent with it.

        After a timeout the connection is closed, since a late reply would be taken for the reply to
        the next request.
        """
        with self.lock:
            try:
                self.control.settimeout(START_TIMEOUT_S)
                socket.send_fds(self.control, [request], fds)
                reply, pidfds, *_ = socket.recv_fds(self.control, 1024, 1)
            except OSError:  # includes timeouts
                self.control.close()
                return "", []
        return reply.decode(errors="replace"), pidfds

    def connect(self) -> socket.socket:
        """Open a connection for another process, to be wrapped in a `Zygote`. Raises ZygoteGone."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with self.lock, theirs:
            request = json.dumps({"call": ""}).encode()
            try:
                socket.send_fds(self.control, [request], [theirs.fileno()])
            except OSError:
                ours.close()
                raise ZygoteGone(GONE if self.warm else NOT_STARTED) from None
        return ours

    def close(self) -> None:
        """End the zygote and all that it forked, or only disconnect from another's zygote."""
        self.control.close()
        if self.process is None:
            return
        # Before it is warm it has forked nothing, so there is no need to wait for it.
        if not self.warm or not self.process.wait(EXIT_TIMEOUT_S):
            self.process.kill()
        self.process.close()
        self.process = None

    def __enter__(self) -> "Zygote":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start_zygote() -> Zygote:
    """Start a zygote in an environment that contains nothing from the caller's."""
    # Otherwise a socket could get the number of a closed standard stream, and receive its output.
    terminal.open_closed_streams()
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    arguments = [str(n) for n in (theirs.fileno(), os.getpid(), threading.get_native_id())]
    process = subprocess.Popen(
        [sys.executable, "-m", "headcheck.grader.sandbox.server_side.zygote", *arguments],
        pass_fds=[theirs.fileno()],
        env=make_environment(),
        cwd="/",
        stdin=subprocess.DEVNULL,
    )
    theirs.close()
    return Zygote(control, ChildProcess(process.pid, os.pidfd_open(process.pid), process.wait))


def adopt_zygote(pid: int, control: socket.socket) -> Zygote:
    """Return a zygote that was forked from this process and takes requests on this socket."""
    return Zygote(control, ChildProcess(pid, os.pidfd_open(pid), lambda: os.waitpid(pid, 0)))


def make_environment() -> dict[str, str]:
    """Return the environment in which torch is imported; it contains nothing from the caller's."""
    return {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(HEADCHECK.parent),
        "PYTHONHASHSEED": "0",
        "PYTHONSAFEPATH": "1",
        # Huge pages, where the kernel has them, mean that a fork copies fewer page entries.
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        # Otherwise torch creates a cache folder for its compiler, which is not used here.
        "TORCHINDUCTOR_CACHE_DIR": "/",
        **SINGLE_THREAD_ENV,
    }


def start_zygote_for(device: str) -> Zygote | None:
    """Start a zygote for grading on this device; return None if the device allows none."""
    return start_zygote() if can_have_zygote(device) else None


def can_have_zygote(device: str) -> bool:
    """Return whether a zygote can be used for grading on this device."""
    return sys.platform == "linux" and device == "cpu"
