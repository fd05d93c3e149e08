"""Measure how long a child computes, waits for a processor, or sleeps during a request.

A verdict must not depend on how busy the machine is. So a request costs only the time that the
child itself used: the processor time of its threads, and the time for which it slept voluntarily.
The kernel counts how long a thread ran, and how long it was ready to run while others ran. The rest
of the time for which the grader process waited is idle time, in which the child slept. The time for
which the grader process itself computed or waited for a processor is also subtracted.

The wall clock only bounds how long to wait for a child that gets no processor. A request that
reaches this bound says nothing about the submission. If the kernel does not report queueing,
sleeping cannot be told from waiting for a processor. Then no time counts as idle, and the bound on
the wall clock is lower.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path

SAMPLE_INTERVAL_S = 0.05
"""how long to wait between two readings of the kernel's counters; reading them after every call
would cost too much"""
PATIENCE, MIN_PATIENCE_S = 60, 600.0
"""the factor by which a request may exceed its limit on the wall clock, and the least time in
seconds: with 40 busy processes on two processors, each gets a twentieth of a processor"""
BLIND_PATIENCE = 4
"""the same factor if the kernel does not report queueing"""
MIN_WAIT_S = 0.02


class OutOfPatience(Exception):
    """A child got so little processor time that waiting for its answer would take too long."""


@dataclass(frozen=True, slots=True)
class RequestTime:
    """The time that a child spent on some requests."""

    own: float = 0.0
    """seconds in which the child computed or slept, without queueing for a processor"""
    idle: float = 0.0
    """seconds in which the child neither ran nor waited for a processor"""


NO_TIME = RequestTime()


@dataclass(frozen=True, slots=True)
class ProcessTimes:
    """How long a process or thread ran and queued for a processor, as counted by the kernel."""

    cpu: float = 0.0
    queued: float | None = 0.0
    """seconds of queueing; None if the kernel does not report it"""


class ChildTimer:
    """Measures the time that one child spends on each request."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._child = ProcessTimes()
        self._queued_here = read_own_queued_time()
        self._waited = 0.0
        self._computed_here = 0.0

    @classmethod
    def start_now(cls, pid: int, limit: float) -> "ChildTimer":
        """Return a timer for a running process, which measures the seconds it uses from now on."""
        timer = cls(pid)
        timer._child = read_process_times(pid)
        timer.begin(limit)
        return timer

    def begin(self, limit: float, idle: float = math.inf) -> None:
        """Start the clocks, right before sending a request that may take this many seconds.

        During `idle` of them the child may sleep.
        """
        self._began = time.monotonic(), time.thread_time()
        self._limit, self._idle = limit, idle

    def wait_more(self) -> float:
        """Return how many seconds to wait for the child before this is called again.

        Raises TimeoutError when the child itself has used up the time of the request, and
        OutOfPatience when far more has passed than that.
        """
        waited = time.monotonic() - self._began[0]
        least = min(self._limit, self._idle)
        if waited < least:
            return least - waited  # it cannot have used more than has passed
        child, queued_here = read_process_times(self.pid), read_own_queued_time()
        before = self._waited
        used = self._compute_request_time(child, queued_here, before + waited)
        left = min(self._limit - (used.own - before), self._idle - used.idle)
        if left <= 0:
            raise TimeoutError
        blind = child.queued is None or queued_here is None
        if waited > compute_patience(self._limit, blind=blind):
            raise OutOfPatience
        return max(left, MIN_WAIT_S)

    def end(self, total: ProcessTimes | None) -> RequestTime:
        """Stop the clocks; return the time of this request and of earlier ones not reported yet.

        Short requests add up, and are reported once they exceed `SAMPLE_INTERVAL_S`. `total` are
        the times of a child that has ended, whose counters can no longer be read.
        """
        wall, here = self._began
        self._waited += time.monotonic() - wall
        self._computed_here += time.thread_time() - here
        if total is None and self._waited < SAMPLE_INTERVAL_S:
            return NO_TIME
        child, queued = total or read_process_times(self.pid), read_own_queued_time()
        request_time = self._compute_request_time(child, queued, self._waited)
        self._child, self._queued_here = child, queued
        self._waited = self._computed_here = 0.0
        return request_time

    def _compute_request_time(
        self, child: ProcessTimes, queued_here: float | None, waited: float
    ) -> RequestTime:
        ran = max(0.0, child.cpu - self._child.cpu)
        queued = compute_elapsed(self._child.queued, child.queued)
        queued_here = compute_elapsed(self._queued_here, queued_here)
        if queued is None or queued_here is None:
            return RequestTime(ran)
        idle = max(0.0, waited - ran - queued - queued_here - self._computed_here)
        return RequestTime(ran + idle, idle)


def compute_patience(limit: float, *, blind: bool = False) -> float:
    """Return how long, on the wall clock, to wait for a request that may use this many seconds."""
    return limit * BLIND_PATIENCE if blind else max(limit * PATIENCE, MIN_PATIENCE_S)


def compute_elapsed(before: float | None, after: float | None) -> float | None:
    """Return the time between two readings of a clock."""
    return None if before is None or after is None else after - before


def read_process_times(pid: int) -> ProcessTimes:
    """Return how long all threads of a process ran, and how long they queued."""
    try:
        cpu = time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(3), which Python lacks
    except OSError:  # it has ended
        return ProcessTimes(queued=None)
    return ProcessTimes(cpu, read_queued_time(Path(f"/proc/{pid}")))


def read_queued_time(process: Path) -> float | None:
    """Return how long the threads of a process, given by its folder in /proc, have queued.

    None if it has ended, or the kernel does not say.
    """
    try:
        tasks = list((process / "task").iterdir())
    except OSError:
        return None
    times = map(_read_queued_time_of_task, tasks)
    known = [each for each in times if each is not None]  # a thread may just have ended
    return sum(known) if known else None


def read_own_queued_time() -> float | None:
    """Return how long the calling thread has queued for a processor."""
    return _read_queued_time_of_task(Path("/proc/thread-self"))


def _read_queued_time_of_task(task: Path) -> float | None:
    try:
        return int((task / "schedstat").read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return None
