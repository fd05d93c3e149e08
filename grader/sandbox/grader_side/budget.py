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
from grader.sandbox.timing import Took
from properties.violation import Status, SubmissionFailed

SERIES_OF_CALL, SERIES_OF_ALL = 1 / 2, 1 / 4
"""A series gets so small a part of a call's time, and of all: it is asked to save time."""
LESS = 3
"""so many times shorter may calls be after one that used up its time"""
READING_S_PER_BYTE = 10 / (1 << 20)
"""so much processor time a process gets besides to read the file: several times what that takes"""
READING = ("read", "units")
"""requests whose time grows with the file, and is none of its code's"""
OURS = ("load", "series")
"""requests that are no single call: whoever imports a library or answers many questions is slow"""


class UsedUp(SubmissionFailed):
    """Nothing more is asked of a file; the message says why, and what to do."""


@dataclass(eq=False)
class Budget:
    """What has been used of the limits so far. Limits may differ between a file's exercises."""

    waited: float = 0.0
    """seconds of waiting for replies, but those to reading"""
    read: float = 0.0
    """seconds of waiting until the file was read"""
    idle: float = 0.0
    cpu: float = 0.0
    """seconds of processor time that ended children used"""
    received: int = 0
    """bytes of all replies"""
    slow: int = 0
    """calls that were slow"""
    overran: int = 0
    """calls that used up their time"""
    forgiven: bool = False
    """whether the present child has had its slow call"""
    reading: float = 0.0
    """seconds of processor time in which the present child read the file"""

    def check(self, op: str, limits: Limits) -> None:
        """Raises UsedUp if this may not be asked any more."""
        problem = self._problem(op, limits)
        if problem is not None:
            raise problem

    def _problem(self, op: str, limits: Limits) -> UsedUp | None:
        if self.received > limits.replies:
            text = f"answered with more than {limits.replies >> 20} MiB in all"
            return UsedUp(Status.CRASHED, text)
        text = self._too_long(op, limits)
        return UsedUp(Status.TIMED_OUT, text) if text else None

    def _too_long(self, op: str, limits: Limits) -> str:
        if op in READING and self.read >= limits.read_s:
            return (
                f"reading it took more than {limits.read_s:g} s: hand in a smaller file, with the "
                "definitions and what they need"
            )
        if self.slow >= limits.slow_calls:
            return (
                f"{self.slow} calls took more than {limits.slow_s:g} s each, on inputs of a few "
                "numbers, so no more are made: is there a loop that does not end, a loop that one "
                "operation on tensors could replace, a sleep, or something loaded in every call?"
            )
        if self.idle >= limits.idle_s:
            return (
                f"waited for more than {limits.idle_s:g} s in all without computing anything, so "
                "no more calls are made: is there a sleep, or something that never comes?"
            )
        if self.waited >= limits.wall_s:
            return f"took more than {limits.wall_s:g} s in all"
        if self.cpu >= limits.cpu_s:
            return f"used more than {limits.cpu_s} s of processor time"
        return ""

    def patience(self, op: str, limits: Limits) -> float:
        """Seconds that a request may take."""
        if op in READING:
            return limits.read_s - self.read
        left = limits.wall_s - self.waited
        if op == "series":
            return min(limits.call_s * SERIES_OF_CALL, limits.wall_s * SERIES_OF_ALL, left)
        # The last call of one that sleeps is a short one; who does not sleep has all of `idle_s`.
        idle = max(limits.idle_s - self.idle, limits.call_s / 2)
        less: int = LESS**self.overran
        return min(limits.call_s / less, idle, left)

    def charge(self, op: str, limits: Limits, wall: float, took: Took, *, late: bool) -> None:
        """Count what a request took; `late` says that it was broken off."""
        if op in READING:
            self.read += wall
            self.reading += took.own
            return
        self.waited += wall
        self.idle += took.idle
        own = min(took.own, wall)
        if op in OURS:
            return
        overran = late and own > wall / 2  # and not because others were busy
        self.overran += overran
        if overran or (self.forgiven and own > limits.slow_s):
            self.slow += 1
        self.forgiven |= own > limits.slow_s

    def begin(self, limits: Limits, size: int) -> int:
        """A fresh process will read a file of this size: its processor time, in whole seconds.

        It may be slow once.
        """
        self.forgiven, self.reading = False, 0.0
        reading = min(limits.read_s - self.read, size * READING_S_PER_BYTE)
        return ceil(limits.cpu_s - self.cpu + reading)

    def end(self, cpu: float) -> None:
        """A process ended that used so much processor time."""
        self.cpu += max(0.0, cpu - self.reading)
