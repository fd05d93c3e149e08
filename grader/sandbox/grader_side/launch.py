"""Start a zygote, and have it fork. It takes a while to get warm: a command does this before all.

Nothing heavy is imported here: while torch is loaded there, it is loaded here, too.
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
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader import terminal
from grader.sandbox.limits import SINGLE_THREAD_ENV

START_TIMEOUT_S = 120.0
EXIT_TIMEOUT_S = 5.0
NOT_STARTED = (
    "the fork server did not start: its message is above, or it was killed; give the command again"
)
GONE = "the fork server is gone: it was killed, or memory ran out; give the command again"


class ZygoteGone(Exception):
    """It ended, does not answer, or cannot fork; the message says which, and what to do."""


@dataclass(eq=False)
class ForkedProcess:
    """A process that a zygote forked. It can be ended, and never another one in its place."""

    pid: int
    pidfd: int

    def kill(self) -> None:
        """End it, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def wait(self, timeout: float) -> bool:
        """Whether it has ended, within so many seconds."""
        ended = select.poll()
        ended.register(self.pidfd, select.POLLIN)
        return bool(ended.poll(timeout * 1000))

    def close(self) -> None:
        """Forget it."""
        os.close(self.pidfd)


@dataclass(eq=False)
class Zygote:
    """A zygote that is on its way. Use as a context manager; leaving it ends all that it forked."""

    control: socket.socket
    process: subprocess.Popen[bytes] | None = None
    """none of ours if another process started it"""
    warm: bool = False
    """whether it has answered once"""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fork(
        self, call: str, given: Sequence[socket.socket | int], *arguments: object
    ) -> ForkedProcess:
        """A new process that calls a function, "module:name", with its parent's pid and these.

        What is given goes over and is closed here. Raises ZygoteGone.
        """
        request = json.dumps({"call": call, "arguments": arguments}).encode()
        fds = [each if isinstance(each, int) else each.detach() for each in given]
        try:
            said, pidfds = self._send_request(request, fds)
        finally:
            for fd in fds:
                os.close(fd)
        if said and not pidfds:
            raise ZygoteGone(f"no process can be started: {said}; give the command again")
        if not said:
            raise ZygoteGone(GONE if self.warm else NOT_STARTED)
        self.warm = True
        return ForkedProcess(int(said), pidfds[0])

    def _send_request(self, request: bytes, fds: Sequence[int]) -> tuple[str, list[int]]:
        """What it says to a request, and the descriptor that comes with it; nothing if it is gone.

        Who does not answer is asked no more: its answer would be taken for that to the next one.
        """
        with self.lock:
            try:
                self.control.settimeout(START_TIMEOUT_S)
                socket.send_fds(self.control, [request], fds)
                said, pidfds, *_ = socket.recv_fds(self.control, 1024, 1)
            except OSError:  # which a timeout is
                self.control.close()
                return "", []
        return said.decode(errors="replace"), pidfds

    def connect(self) -> socket.socket:
        """A line to it for another process, which makes a `Zygote` of it. Raises ZygoteGone."""
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
        """End it, and with it everything that it forked; or only the line to another's."""
        self.control.close()
        if self.process is None:
            return
        if not self.warm:
            self.process.kill()  # it has forked nothing yet, and need not get warm first
        try:
            self.process.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> "Zygote":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start_zygote() -> Zygote:
    """A zygote, in an environment that holds nothing of the caller's."""
    terminal.open_closed_streams()  # else a line to it would take the number, and what is printed
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    root = str(Path(__file__).resolve().parents[3])
    told = [str(n) for n in (theirs.fileno(), os.getpid(), threading.get_native_id())]
    process = subprocess.Popen(
        [sys.executable, "-m", "grader.sandbox.server_side.zygote", *told],
        pass_fds=[theirs.fileno()],
        env={
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONPATH": root,
            "PYTHONHASHSEED": "0",
            "PYTHONSAFEPATH": "1",
            # Large pages where the kernel has them: a fork then copies fewer entries.
            "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
            # Else torch makes a folder for its compiler, which nobody uses here.
            "TORCHINDUCTOR_CACHE_DIR": "/",
            **SINGLE_THREAD_ENV,
        },
        cwd="/",
        stdin=subprocess.DEVNULL,
    )
    theirs.close()
    return Zygote(control, process)


def start_zygote_for(device: str) -> Zygote | None:
    """A zygote for what will be graded on this device, where there can be one."""
    return start_zygote() if sys.platform == "linux" and device == "cpu" else None
