"""What one file may cost, over all its definitions and all processes that are started for it.

Theory
------
A class must not wait for one file. Every limit in seconds or bytes is therefore the file's: another
definition and another process go on with what is left. Reading the file has a limit of its own,
because a large honest one takes long to read, and is read again by every process.

Wall time is no measure of a submission on a busy machine, and short of it there is nothing to be
said against one that computes. So a call is *slow* by its own time (`grader.sandbox.timing`), and
after a few slow calls no more are made. One slow call of each process is forgiven: a library that
is imported in the first call takes long once. A call that used up all its time has cost the class
enough, and later ones get less. That bounds endless loops; sleeping is bounded by
the time in which the child did nothing, however many calls it is spread over.
"""

from dataclasses import dataclass
from math import ceil

from grader.sandbox.limits import Limits
from grader.sandbox.timing import RequestTime
from properties.violation import Status, SubmissionFailed

BATCH_CALL_FRACTION, BATCH_TOTAL_FRACTION = 1 / 2, 1 / 4
"""A series gets so small a part of a call's time, and of all: it is asked to save time."""
OVERRUN_DIVISOR = 3
"""so many times shorter may calls be after one that used up its time"""
READ_CPU_S_PER_BYTE = 10 / (1 << 20)
"""so much processor time a process gets besides to read the file: several times what that takes"""
READ_REQUESTS = ("read", "units")
"""requests whose time grows with the file, and is none of its code's"""
UNTIMED_REQUESTS = ("load", "series")
"""requests that are no single call: whoever imports a library or answers many questions is slow"""


class BudgetExhausted(SubmissionFailed):
    """Nothing more is asked of a file; the message says why, and what to do."""


@dataclass(eq=False)
class Budget:
    """What has been used of the limits so far. Limits may differ between a file's exercises."""

    wall_s: float = 0.0
    """seconds of waiting for replies, but those to reading"""
    read_s: float = 0.0
    """seconds of waiting until the file was read"""
    idle_s: float = 0.0
    cpu_s: float = 0.0
    """seconds of processor time that ended children used"""
    reply_bytes: int = 0
    """bytes of all replies"""
    slow_calls: int = 0
    """calls that were slow"""
    overrun_calls: int = 0
    """calls that used up their time"""
    forgiven: bool = False
    """whether the present child has had its slow call"""
    reading_cpu_s: float = 0.0
    """seconds of processor time in which the present child read the file"""

    def require_available(self, op: str, limits: Limits) -> None:
        """Raises UsedUp if this may not be asked any more."""
        problem = self._find_exhausted(op, limits)
        if problem is not None:
            raise problem

    def _find_exhausted(self, op: str, limits: Limits) -> BudgetExhausted | None:
        if self.reply_bytes > limits.replies:
            text = f"answered with more than {limits.replies >> 20} MiB in all"
            return BudgetExhausted(Status.CRASHED, text)
        text = self._describe_overrun(op, limits)
        return BudgetExhausted(Status.TIMED_OUT, text) if text else None

    def _describe_overrun(self, op: str, limits: Limits) -> str:
        if op in READ_REQUESTS and self.read_s >= limits.read_s:
            return (
                f"reading it took more than {limits.read_s:g} s: hand in a smaller file, with the "
                "definitions and what they need"
            )
        if self.slow_calls >= limits.slow_calls:
            return (
                f"{self.slow_calls} calls took more than {limits.slow_s:g} s each, on inputs of a "
                f"few "
                "numbers, so no more are made: is there a loop that does not end, a loop that one "
                "operation on tensors could replace, a sleep, or something loaded in every call?"
            )
        if self.idle_s >= limits.idle_s:
            return (
                f"waited for more than {limits.idle_s:g} s in all without computing anything, so "
                "no more calls are made: is there a sleep, or something that never comes?"
            )
        if self.wall_s >= limits.wall_s:
            return f"took more than {limits.wall_s:g} s in all"
        if self.cpu_s >= limits.cpu_s:
            return f"used more than {limits.cpu_s} s of processor time"
        return ""

    def compute_timeout(self, op: str, limits: Limits) -> float:
        """Seconds that a request may take."""
        if op in READ_REQUESTS:
            return limits.read_s - self.read_s
        left = limits.wall_s - self.wall_s
        if op == "series":
            return min(
                limits.call_s * BATCH_CALL_FRACTION, limits.wall_s * BATCH_TOTAL_FRACTION, left
            )
        # The last call of one that sleeps is a short one; who does not sleep has all of `idle_s`.
        idle = max(limits.idle_s - self.idle_s, limits.call_s / 2)
        less: int = OVERRUN_DIVISOR**self.overrun_calls
        return min(limits.call_s / less, idle, left)

    def charge(
        self, op: str, limits: Limits, wall: float, took: RequestTime, *, late: bool
    ) -> None:
        """Count what a request took; `late` says that it was broken off."""
        if op in READ_REQUESTS:
            self.read_s += wall
            self.reading_cpu_s += took.own
            return
        self.wall_s += wall
        self.idle_s += took.idle
        own = min(took.own, wall)
        if op in UNTIMED_REQUESTS:
            return
        overran = late and own > wall / 2  # and not because others were busy
        self.overrun_calls += overran
        if overran or (self.forgiven and own > limits.slow_s):
            self.slow_calls += 1
        self.forgiven |= own > limits.slow_s

    def start_process(self, limits: Limits, size: int) -> int:
        """A fresh process will read a file of this size: its processor time, in whole seconds.

        It may be slow once.
        """
        self.forgiven, self.reading_cpu_s = False, 0.0
        reading = min(limits.read_s - self.read_s, size * READ_CPU_S_PER_BYTE)
        return ceil(limits.cpu_s - self.cpu_s + reading)

    def end_process(self, cpu: float) -> None:
        """A process ended that used so much processor time."""
        self.cpu_s += max(0.0, cpu - self.reading_cpu_s)
