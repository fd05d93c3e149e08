"""The budget of one file, shared by all its definitions and all processes started for it.

Theory
------
A class must not wait for one file. Every limit in seconds or bytes therefore belongs to the file:
another definition or process continues with the rest of it. Reading the file has a limit of its
own, because a large but honest file takes long to read, and every process reads it again. So has
importing modules, because a large library takes long, and that is nobody's mistake.

Wall time is unfair to a submission on a busy machine. So a call counts as *slow* by its run time
without queueing (`grader.sandbox.timing`), and after a few slow calls no more are made. One slow
call of each process is forgiven, since a library imported in the first call takes long once. A call
that uses up its time has cost the class enough, so later calls get less. That bounds endless loops;
sleeping is bounded by the total idle time, however many calls it is spread over.
"""

from dataclasses import dataclass
from math import ceil

from grader.sandbox.limits import Limits
from grader.sandbox.timing import RequestTime
from properties.violation import Status, SubmissionFailed

BATCH_CALL_FRACTION, BATCH_TOTAL_FRACTION = 1 / 2, 1 / 4
"""fractions of a call's time and of all time for a batch: it exists to save time"""
OVERRUN_DIVISOR = 3
"""factor by which calls get shorter after one that used up its time"""
READ_CPU_S_PER_BYTE = 10 / (1 << 20)
"""additional processor time of a process for reading the file: several times the usual"""
READ_REQUESTS = ("read", "units")
"""requests that run none of the file's code, and whose time grows with its size"""
IMPORT_REQUEST = "import"
"""the request that runs one import"""
ONE_IMPORT_FRACTION = 1 / 3
"""the fraction of the time for imports that one of them may take"""
BATCH_REQUESTS = ("series", "transcript")
"""requests that hold many calls"""
UNTIMED_REQUESTS = ("load", "resume", *BATCH_REQUESTS)
"""requests that may be slow, since they import libraries or make many calls"""


class BudgetExhausted(SubmissionFailed):
    """The file gets no more requests; the message says why, and what to do."""


@dataclass(eq=False)
class Budget:
    """The part of a file's limits used so far. Limits may differ between a file's exercises."""

    wall_s: float = 0.0
    """seconds of waiting for replies, except for reading and importing"""
    read_s: float = 0.0
    """seconds of waiting until the file was read"""
    import_s: float = 0.0
    """seconds of waiting until modules were imported"""
    idle_s: float = 0.0
    cpu_s: float = 0.0
    """seconds of processor time that ended children used"""
    reply_bytes: int = 0
    """bytes of all replies"""
    slow_calls: int = 0
    overrun_calls: int = 0
    """calls that used up their time"""
    forgiven: bool = False
    """whether the present child has had its forgiven slow call"""
    reading_cpu_s: float = 0.0
    """seconds of processor time in which the present child read the file, and imported modules"""

    def require_available(self, op: str, limits: Limits) -> None:
        """Raise BudgetExhausted if no more requests of this kind may be made."""
        if self.reply_bytes > limits.replies:
            text = f"answered with more than {limits.replies >> 20} MiB in all"
            raise BudgetExhausted(Status.CRASHED, text)
        if text := self._describe_overrun(op, limits):
            raise BudgetExhausted(Status.TIMED_OUT, text)

    def _describe_overrun(self, op: str, limits: Limits) -> str:
        if op in READ_REQUESTS and self.read_s >= limits.read_s:
            return (
                f"reading it took more than {limits.read_s:g} s: hand in a smaller file, with the "
                "definitions and what they need"
            )
        if op == IMPORT_REQUEST and self.import_s >= limits.import_s:
            return f"importing modules took more than {limits.import_s:g} s in all"
        if self.slow_calls >= limits.slow_calls:
            return (
                f"{self.slow_calls} calls took more than {limits.slow_s:g} s each, on inputs of a "
                "few numbers, so no more are made: is there a loop that does not end, a loop that "
                "one operation on tensors could replace, a sleep, or something loaded in every "
                "call?"
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
        """Return the seconds that a request may take."""
        if op in READ_REQUESTS:
            return limits.read_s - self.read_s
        if op == IMPORT_REQUEST:
            return min(limits.import_s - self.import_s, limits.import_s * ONE_IMPORT_FRACTION)
        left = limits.wall_s - self.wall_s
        if op in BATCH_REQUESTS:
            return min(
                limits.call_s * BATCH_CALL_FRACTION, limits.wall_s * BATCH_TOTAL_FRACTION, left
            )
        # A submission that sleeps has short last calls; one that does not keeps all of `idle_s`.
        idle = max(limits.idle_s - self.idle_s, limits.call_s / 2)
        divisor: int = OVERRUN_DIVISOR**self.overrun_calls
        return min(limits.call_s / divisor, idle, left)

    def charge(
        self, op: str, limits: Limits, wall: float, request_time: RequestTime, *, late: bool
    ) -> None:
        """Charge the time of a request; `late` says that it was broken off."""
        if op in READ_REQUESTS:
            self.read_s += wall
            self.reading_cpu_s += request_time.own
            return
        if op == IMPORT_REQUEST:
            self.import_s += wall
            self.reading_cpu_s += request_time.own
            return
        self.wall_s += wall
        self.idle_s += request_time.idle
        own = min(request_time.own, wall)
        if op in UNTIMED_REQUESTS:
            return
        overran = late and own > wall / 2  # otherwise other processes were the cause
        self.overrun_calls += overran
        if overran or (self.forgiven and own > limits.slow_s):
            self.slow_calls += 1
        self.forgiven |= own > limits.slow_s

    def start_process(self, limits: Limits, size: int) -> int:
        """Reset the counts of the present process, and return the processor time of a new one.

        The time is in whole seconds, and includes that for reading a file of this size.
        """
        self.forgiven, self.reading_cpu_s = False, 0.0
        reading = min(limits.read_s - self.read_s, size * READ_CPU_S_PER_BYTE)
        return ceil(limits.cpu_s - self.cpu_s + reading)

    def end_process(self, cpu: float) -> None:
        """Charge the processor time of a process that has ended."""
        self.cpu_s += max(0.0, cpu - self.reading_cpu_s)
