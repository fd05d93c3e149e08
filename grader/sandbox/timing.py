"""What a child does while it is waited for: compute, wait for a processor, or nothing.

Theory
------
Wall time alone cannot tell a submission that sleeps from one on a busy machine. The kernel can: it
counts how long a process ran, and how long it could have run while others did. What is left of the
time that the examiner waited is idle: the child slept. What the examiner itself computed meanwhile,
or waited for a processor, is left out as well: that is not the child's time.

A call's own time is what it would have taken on a machine of its own: its wall time without any
waiting for a processor. Where the kernel does not tell how long that was, or the child is gone,
nobody is accused: own time is then the processor time that is known of, and nothing is idle.
"""

import time
from dataclasses import dataclass
from pathlib import Path

SAMPLE_INTERVAL_S = 0.2
"""the kernel is asked again after so much waiting: asking after every call would cost too much"""


@dataclass(frozen=True, slots=True)
class RequestTime:
    """What a child did in the time of some requests."""

    own: float = 0.0
    """seconds without any waiting for a processor"""
    idle: float = 0.0
    """seconds in which the child neither ran nor waited for a processor"""


NO_TIME = RequestTime()


@dataclass(frozen=True, slots=True)
class ProcessTimes:
    """By the kernel's count, how long a process or a thread ran, and waited until it could."""

    cpu: float = 0.0
    queued: float | None = 0.0
    """None where the kernel does not tell"""


class ChildTimer:
    """The times of one child, request by request."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._child = ProcessTimes()
        self._queued_here = read_own_queued_time()
        self._waited = 0.0
        self._computed_here = 0.0

    def begin(self) -> None:
        """A request is about to be sent."""
        self._began = time.monotonic(), time.thread_time()

    def end(self, in_all: ProcessTimes | None) -> RequestTime:
        """The reply is there, or there is none. What this took, and the requests before it.

        Short requests are added up, and told when they come to `LOOK_S`. Of a child that has ended
        `in_all` is what is known.
        """
        wall, here = self._began
        self._waited += time.monotonic() - wall
        self._computed_here += time.thread_time() - here
        if self._waited < SAMPLE_INTERVAL_S:
            return NO_TIME
        child, queued = in_all or read_process_times(self.pid), read_own_queued_time()
        took = self._compute_request_time(child, queued)
        self._child, self._queued_here = child, queued
        self._waited = self._computed_here = 0.0
        return took

    def _compute_request_time(self, child: ProcessTimes, queued_here: float | None) -> RequestTime:
        ran = min(max(0.0, child.cpu - self._child.cpu), self._waited)
        queued = compute_elapsed(self._child.queued, child.queued)
        queued_here = compute_elapsed(self._queued_here, queued_here)
        if queued is None or queued_here is None:
            return RequestTime(ran)
        idle = max(0.0, self._waited - ran - queued - queued_here - self._computed_here)
        return RequestTime(ran + idle, idle)


def compute_elapsed(before: float | None, after: float | None) -> float | None:
    """The time between two readings of a clock."""
    return None if before is None or after is None else after - before


def read_process_times(pid: int) -> ProcessTimes:
    """The times of a process: how long all its threads ran, and its first one waited to."""
    try:
        cpu = time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(3), which Python lacks
    except OSError:  # it is gone
        return ProcessTimes(queued=None)
    return ProcessTimes(cpu, read_queued_time(Path(f"/proc/{pid}")))


def read_own_queued_time() -> float | None:
    """How long the thread that asks has waited for a processor."""
    return read_queued_time(Path("/proc/thread-self"))


def read_queued_time(task: Path) -> float | None:
    """The same of a process or thread, by its folder in /proc; it may have ended unseen."""
    try:
        return int((task / "schedstat").read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return None
