"""The budgets of one file, shared by all its definitions and all processes started for it.

Theory
------
The grading of a class must not be held up by one file. Every limit in seconds or bytes therefore
belongs to the file: another definition or process gets only what is left of it. Reading the file
has its own limit, because a large but honest file takes long to read, and every process reads it
again. Importing modules has its own limit, too, because a large library takes long to import, and
that is nobody's mistake.

The time of a request is that of its calls: a request that makes 32 calls may take 32 times as long
as one call. So many calls that end are never taken for one that does not.

Only time that the submission itself used counts (`grader.sandbox.timing`): a verdict must not
depend on what else the machine is doing. After a call that uses up its time, later calls get less
time, and after a few such calls no more are made. This bounds the cost of endless loops. Sleeping
is bounded by the total idle time, however many calls it is spread over.

A submission is not wrong if each of its calls ends but all of them together use up the file's time.
But what was not asked (`Status.NOT_ASKED`) earns nothing: otherwise an answer could use up its time
to hide what is wrong.

A file has a budget for each purpose, within the same limits. So neither a search nor a second
attempt without unwanted biases takes anything from the time for the first verdicts.
"""

from dataclasses import dataclass
from enum import Enum
from math import ceil, inf

from headcheck.grader.sandbox import operations
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.sandbox.timing import RequestTime
from headcheck.properties.violations.violation import Status, SubmissionFailed

BATCH_CALL_FRACTION, BATCH_TOTAL_FRACTION = 1 / 2, 1 / 4
"""a batch may take these fractions of a call's time and of the total time: it exists to save time
"""
OVERRUN_DIVISOR = 3
"""after a call that used up its time, the time of later calls is divided by this number"""
READ_CPU_S_PER_BYTE = 10 / (1 << 20)
"""the additional processor time that a process gets for reading the file: several times the usual
"""
READ_REQUEST = operations.READ.name
"""this request runs none of the file's code, and its time grows with the file's size"""
IMPORT_REQUEST = operations.IMPORT_NEXT.name
"""the request that runs one import"""
ONE_IMPORT_FRACTION = 1 / 3
"""the fraction of the time for imports that a single import may take"""
BATCH_REQUESTS = (operations.RUN_BATCH.name, operations.RUN_TRANSCRIPT.name)
"""requests that hold many calls"""
LOAD_REQUESTS = (operations.LOAD.name, operations.RESUME.name)
UNTIMED_REQUESTS = (*LOAD_REQUESTS, *BATCH_REQUESTS)
"""requests that may be slow, since they import libraries or make many calls"""


class Purpose(Enum):
    """What the processes of a file are started for."""

    VERDICTS = "verdicts"
    SILENCED = "verdicts without unwanted biases"
    REPAIRED = "verdicts on an answer without its slip"
    SEARCH = "search"


class BudgetExhausted(SubmissionFailed):
    """No more requests are made about the file; the message says why, and what to do."""


def describe_end(text: str, *, alone: bool) -> BudgetExhausted:
    """Return the exception that ends the grading when a single call, or all, used up the time."""
    return BudgetExhausted(Status.TIMED_OUT if alone else Status.NOT_ASKED, text)


@dataclass(eq=False)
class Budget:
    """The part of a file's limits that is used up. Exercises in a file may differ in limits."""

    total_s: float = 0.0
    """the seconds that the file's code computed or slept, not counting reading and importing"""
    read_s: float = 0.0
    import_s: float = 0.0
    idle_s: float = 0.0
    cpu_s: float = 0.0
    """the seconds of processor time used by children that have ended"""
    reply_bytes: int = 0
    """bytes of all replies"""
    overruns: int = 0
    """how many calls used up their time"""
    pardoned: int = 0
    """how many of the overruns had inputs so large that even a slow but correct solution may exceed
    the time"""
    reading_cpu_s: float = 0.0
    """the seconds of processor time in which the current child read the file and imported modules
    """

    def require_available(self, op: str, limits: Limits, *, alone: bool = False) -> None:
        """Raise BudgetExhausted if no more requests of this kind may be made.

        `alone` says whether a single call has just used up its time.
        """
        if self.reply_bytes > limits.replies:
            text = f"answered with more than {limits.replies >> 20} MiB in all"
            raise BudgetExhausted(Status.CRASHED, text)
        if text := self._describe_overrun(op, limits) or self._describe_endless(limits):
            raise BudgetExhausted(Status.TIMED_OUT, text)
        if text := self._describe_total(limits):
            raise describe_end(text, alone=alone)

    @property
    def endless(self) -> int:
        """The number of calls with small inputs that used up their time."""
        return self.overruns - self.pardoned

    def _describe_endless(self, limits: Limits) -> str:
        if self.endless >= limits.endless_calls:
            return (
                f"{self.endless} calls used up their time, on inputs of a few numbers, so no more "
                "are made: is there a loop that does not end, or a sleep?"
            )
        if self.idle_s >= limits.idle_s:
            return (
                f"waited for more than {limits.idle_s:g} s in all without computing anything, so "
                "no more calls are made: does it sleep, or wait for something that never comes?"
            )
        return ""

    def _describe_overrun(self, op: str, limits: Limits) -> str:
        if op == READ_REQUEST and self.read_s >= limits.read_s:
            return (
                f"reading it took more than {limits.read_s:g} s: hand in a smaller file, with "
                "only the definitions and the code that they need"
            )
        if op == IMPORT_REQUEST and self.import_s >= limits.import_s:
            return f"importing modules took more than {limits.import_s:g} s in all"
        return ""

    def _describe_total(self, limits: Limits) -> str:
        if self.total_s >= limits.total_s:
            return f"took more than {limits.total_s:g} s in all"
        if self.cpu_s >= limits.cpu_s:
            return f"used more than {limits.cpu_s} s of processor time"
        return ""

    def compute_timeout(self, op: str, limits: Limits, calls: int = 1) -> float:
        """Return how many seconds of its own time a request with so many calls may take."""
        if op == READ_REQUEST:
            return limits.read_s - self.read_s
        if op == IMPORT_REQUEST:
            return min(limits.import_s - self.import_s, limits.import_s * ONE_IMPORT_FRACTION)
        left = limits.total_s - self.total_s
        if op in BATCH_REQUESTS:
            part = limits.call_s * BATCH_CALL_FRACTION
            return min(part, limits.total_s * BATCH_TOTAL_FRACTION, left)
        return min(self._compute_call_timeout(limits) * calls, left)

    def compute_idle_timeout(self, op: str, limits: Limits) -> float:
        """Return during how many seconds of a request the submission may sleep."""
        if op in (READ_REQUEST, IMPORT_REQUEST):
            return inf
        # A submission that sleeps has short last calls; one that does not keeps all of `idle_s`.
        return max(limits.idle_s - self.idle_s, limits.call_s / 2)

    def _compute_call_timeout(self, limits: Limits) -> float:
        divisor: int = OVERRUN_DIVISOR**self.endless
        return limits.call_s / divisor

    def charge(
        self, op: str, limits: Limits, used: RequestTime, *, late: bool, calls: int = 1
    ) -> None:
        """Charge the time of a request of so many calls; `late` says whether it was aborted."""
        if op == READ_REQUEST:
            self.read_s += used.own
            self.reading_cpu_s += used.own
        elif op == IMPORT_REQUEST:
            self.import_s += used.own
            self.reading_cpu_s += used.own
        else:
            # A batch that is late was too much to ask for at once.
            late = late and op not in UNTIMED_REQUESTS
            counted = op not in LOAD_REQUESTS
            self.overruns += counted and self._has_overrun(limits, used, late=late, calls=calls)
            self.total_s += used.own
            self.idle_s += used.idle

    def _has_overrun(self, limits: Limits, used: RequestTime, *, late: bool, calls: int) -> bool:
        """Whether a call used up its own time, and not just what others had left of the total."""
        left, most = limits.total_s - self.total_s, self._compute_call_timeout(limits) * calls
        cut_short = left < most and used.idle < used.own / 2
        # Threads may use up all processor time before a call is late.
        most = min(limits.call_s, limits.cpu_s / 2) * calls
        return (late and not cut_short) or used.own > most

    def start_process(self, limits: Limits, size: int) -> int:
        """Reset the current process's counts, and return the processor time of a new one.

        The time is in whole seconds and includes the time for reading a file of this size.
        """
        self.reading_cpu_s = 0.0
        reading = min(limits.read_s - self.read_s, size * READ_CPU_S_PER_BYTE)
        return ceil(limits.cpu_s - self.cpu_s + reading)

    def end_process(self, cpu: float) -> None:
        """Charge the processor time of a process that has ended."""
        self.cpu_s += max(0.0, cpu - self.reading_cpu_s)
