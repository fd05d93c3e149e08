"""Measure how long a child computes, waits for a processor, or sleeps during a request.

Theory
------
Wall time alone cannot tell a submission that sleeps from one on a busy machine. The kernel can: it
counts how long a process ran, and how long it was ready to run while others did. The rest of the
time that the grader process waited is idle time: the child slept. The time in which the grader
process itself computed, or waited for a processor, is subtracted, too.

A call's run time is its wall time without any queueing for a processor, that is, its duration on an
idle machine. Where the kernel does not report queueing, or the child has ended, the submission gets
the benefit of the doubt: its run time is then the known processor time, and none of it is idle.
"""

import time
from dataclasses import dataclass
from pathlib import Path

SAMPLE_INTERVAL_S = 0.2
"""waiting after which the kernel's counters are read again; after every call would cost too much"""


@dataclass(frozen=True, slots=True)
class RequestTime:
    """The time that a child spent on some requests."""

    own: float = 0.0
    """run time in seconds, without queueing for a processor"""
    idle: float = 0.0
    """seconds in which the child neither ran nor waited for a processor"""


NO_TIME = RequestTime()


@dataclass(frozen=True, slots=True)
class ProcessTimes:
    """How long, by the kernel's count, a process or thread ran and queued for a processor."""

    cpu: float = 0.0
    queued: float | None = 0.0
    """None where the kernel does not report it"""


class ChildTimer:
    """Measures the time that one child spends on each request."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._child = ProcessTimes()
        self._queued_here = read_own_queued_time()
        self._waited = 0.0
        self._computed_here = 0.0

    def begin(self) -> None:
        """Start the clocks, right before a request is sent."""
        self._began = time.monotonic(), time.thread_time()

    def end(self, total: ProcessTimes | None) -> RequestTime:
        """Stop the clocks, and return the time of this request and of unreported ones before it.

        Short requests add up, and are reported once they exceed `SAMPLE_INTERVAL_S`. `total` are
        the times of a child that has ended, whose counters can no longer be read.
        """
        wall, here = self._began
        self._waited += time.monotonic() - wall
        self._computed_here += time.thread_time() - here
        if self._waited < SAMPLE_INTERVAL_S:
            return NO_TIME
        child, queued = total or read_process_times(self.pid), read_own_queued_time()
        request_time = self._compute_request_time(child, queued)
        self._child, self._queued_here = child, queued
        self._waited = self._computed_here = 0.0
        return request_time

    def _compute_request_time(self, child: ProcessTimes, queued_here: float | None) -> RequestTime:
        ran = min(max(0.0, child.cpu - self._child.cpu), self._waited)
        queued = compute_elapsed(self._child.queued, child.queued)
        queued_here = compute_elapsed(self._queued_here, queued_here)
        if queued is None or queued_here is None:
            return RequestTime(ran)
        idle = max(0.0, self._waited - ran - queued - queued_here - self._computed_here)
        return RequestTime(ran + idle, idle)


def compute_elapsed(before: float | None, after: float | None) -> float | None:
    """Return the time between two readings of a clock."""
    return None if before is None or after is None else after - before


def read_process_times(pid: int) -> ProcessTimes:
    """Return how long all threads of a process ran, and how long its main thread queued."""
    try:
        cpu = time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(3), which Python lacks
    except OSError:  # it has ended
        return ProcessTimes(queued=None)
    return ProcessTimes(cpu, read_queued_time(Path(f"/proc/{pid}")))


def read_own_queued_time() -> float | None:
    """Return how long the calling thread has queued for a processor."""
    return read_queued_time(Path("/proc/thread-self"))


def read_queued_time(task: Path) -> float | None:
    """Return how long a task, given by its folder in /proc, has queued; None if it has ended."""
    try:
        return int((task / "schedstat").read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return None
