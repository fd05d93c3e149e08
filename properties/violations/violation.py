"""The message of a failed property, and the ways in which checking a submission can end."""

import builtins
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum, auto

from headcheck.properties.terms.case import Case
from headcheck.properties.terms.peculiarity import Peculiarity
from headcheck.properties.violations.crash import Crash


class Status(StrEnum):
    """The outcome of the check of one property. Errors in the grader itself are never a status."""

    PASSED = "passed"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    NOT_TRIED = "not_tried"
    NOT_ASKED = "not_asked"
    """no time was left for the check; it earns no points"""


NOT_FAILED = frozenset({Status.PASSED, Status.NOT_TRIED, Status.NOT_ASKED})
"""the statuses that do not count as failures"""
UNKNOWN = (Status.NOT_TRIED, Status.NOT_ASKED)
"""the statuses that say nothing about a submission"""
STATED = re.compile(r"AssertionError|ValueError(?!.*values to unpack)|NotImplementedError")
"""an exception with which a class rejects an argument"""


class ViolationKind(StrEnum):
    """The kind of difference, in the order of comparison: wrong shapes come before wrong values."""

    CONSTRUCTION = "construction"
    TYPE = "type"
    SHAPE = "shape"
    DTYPE = "dtype"
    DEVICE = "device"
    FINITE = "finite"
    VALUE = "value"


class Reason(StrEnum):
    """The reason of a violation, as a code. Mistakes refer to codes, so messages may change."""

    # what is built
    WEIGHT_ABSENT = auto()
    WEIGHTS_ABSENT = auto()
    BIASES_ABSENT = auto()
    BIAS_ABSENT = auto()
    BIAS_UNASKED = auto()
    EXTRA_PARAMETERS = auto()
    STORED_SHAPE = auto()
    BUILT_OTHERWISE = auto()
    UNREGISTERED = auto()
    FROZEN = auto()
    NOT_REFUSED = auto()
    CONSTANT_START = auto()
    SAME_START = auto()
    # what is called and returned
    MASK_DEMANDED = auto()
    FUSED_NOT_CALLED = auto()
    NOTHING_RETURNED = auto()
    OTHER_RESULTS = auto()
    BECAME_FLOAT32 = auto()
    NOT_A_NUMBER = auto()
    # what a call changes
    INPUT_WRITTEN_OVER = auto()
    MASK_WRITTEN_OVER = auto()
    INPUT_REQUIRES_GRAD = auto()
    STATE_WRITTEN_OVER = auto()
    RESULT_WRITTEN_OVER = auto()
    RESULT_IS_VIEW = auto()
    CONFIG_CHANGED = auto()
    MODE_CHANGED = auto()
    SETTINGS_CHANGED = auto()
    RANDOM_STATE_MOVED = auto()
    # dropout, gradients, memory
    DROPPED_AGAIN = auto()
    DROPPED_TOGETHER = auto()
    COORDINATES_DROPPED = auto()
    NO_GRADIENT = auto()
    TOO_MANY_NUMBERS = auto()
    # a transfer of weights
    SOURCE_GOT_NUMBERS = auto()
    SOURCE_CHANGED = auto()
    NOTHING_TRANSFERRED = auto()
    WEIGHT_NOT_TRANSFERRED = auto()
    ANOTHER_TRANSFERRED = auto()


KIND_MESSAGES = {
    ViolationKind.CONSTRUCTION: "it is not built as the statement asks",
    ViolationKind.TYPE: "something else than the statement asks for",
    ViolationKind.SHAPE: "another shape than expected",
    ViolationKind.DTYPE: "another dtype than expected",
    ViolationKind.DEVICE: "another device than expected",
    ViolationKind.FINITE: "a NaN or an infinity",
    ViolationKind.VALUE: "another value than expected",
}
HEADINGS: Mapping[str, str] = {
    Status.FAILED: "Fails",
    Status.CRASHED: "Crashed in this check",
    Status.TIMED_OUT: "Took too long in this check",
    Status.OUT_OF_MEMORY: "Asked for too much memory in this check",
    Status.NOT_TRIED: "Not tried",
    Status.NOT_ASKED: "Not tried for lack of time",
}
"""the words before a claim, by the status of its check"""
USED_UP = (Status.TIMED_OUT, Status.OUT_OF_MEMORY, Status.NOT_ASKED)
"""the statuses of a submission that used up a limit, so that the sizes of the call matter"""
STATUS_MESSAGES = {
    Status.TIMED_OUT: "it took too long",
    Status.OUT_OF_MEMORY: "it asked for too much memory",
}


@dataclass(eq=False)
class Violation(Exception):
    """A property does not hold. Not frozen, because Python and Hypothesis set attributes on it.

    The message has, in this order: claim, expected, got, where, on which case, hint; so that a
    reader needs no source to understand it. `check` fills in `claim`, `case` and `hint`.
    """

    kind: ViolationKind
    expected: str
    got: str
    where: str = ""
    claim: str = ""
    case: str = ""
    """the sizes in one line, if they are not those of the case that the check was given"""
    hint: str = ""
    after: str = ""
    """the earlier calls, if the failure depends on them"""
    reason: str = ""
    """a `Reason`, or the name of the mistake that gives this answer; empty if neither is known"""
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    """the expected shape and the actual shape of a result"""
    difference: float | None = None
    """the relative error of a wrong value, as a share of the larger of the two numbers"""
    known: Peculiarity | None = None
    """the peculiarity of the failing call, if the submission is known not to support it"""

    def with_details(self, claim: str, case: str, hint: str) -> "Violation":
        """Return it with the check's details; its own case and hint take precedence over these."""
        return replace(self, claim=claim, case=self.case or case, hint=self.hint or hint)

    def __str__(self) -> str:
        at = f" at {self.where}" if self.where else ""
        expected = ("expected", f"{self.expected}{at}")
        context = ("after", self.after), ("on", self.case), ("hint", self.hint)
        return format_rows(self._heading, (expected, ("got", self.got), *context))

    @property
    def redacted_message(self) -> str:
        """The message without numbers: what differs, the place and the hint, but not the case."""
        noun = re.sub(r"\[[^\]]*\]", "", self.where)
        at = f" at {noun}" if noun else ""
        rows = ("got", KIND_MESSAGES[self.kind] + at), ("hint", self.hint)
        return format_rows(self._heading, rows)

    @property
    def _heading(self) -> str:
        return head_check(Status.FAILED, self.claim)


@dataclass(eq=False)
class SubmissionFailed(Exception):
    """The submission itself failed: it raised, took too long, or asked for too much memory.

    The status NOT_TRIED means that the failure is nobody's fault, because something that the check
    needs is not supported. The status NOT_ASKED means that there was no time for the check. `cell`
    and `line` locate the failure in the student's own code, when that is known.
    """

    status: Status
    message: str
    cell: int | None = None
    line: int | None = None
    after: str = ""
    """the earlier calls, if the failure depends on them"""
    crash: Crash | None = None
    """the explanation of the crash, if the exception is a known one"""
    case: str = ""
    """the sizes in one line, if they are not those of the case that the check was given"""
    called: Case | None = None
    """the sizes of the call that took too long, if they are not those of the check's case"""
    known: Peculiarity | None = None
    """the peculiarity of the failing call, if the submission is known not to support it"""
    raised: bool = False
    """whether its code raised an error of its own, and its process went on"""

    def __str__(self) -> str:
        return f"{self.message}{format_location(self.cell, self.line)}"

    @property
    def redacted_message(self) -> str:
        """The message without text from the submission, because such text may reveal the inputs."""
        if self.status in STATUS_MESSAGES:
            return STATUS_MESSAGES[self.status]
        name = self.message.partition(":")[0]
        known = getattr(builtins, name, None)
        raised = isinstance(known, type) and issubclass(known, BaseException)
        message = f"{name} was raised" if raised else "it crashed"
        return message + format_location(self.cell, self.line)


@contextmanager
def ignore_crashes() -> Iterator[None]:
    """Ignore errors that the submission raises, but not a limit that it has used up."""
    try:
        yield
    except SubmissionFailed as failure:
        if failure.status is not Status.CRASHED:
            raise


@dataclass(frozen=True, slots=True)
class Note:
    """A remark about a submission that does not make it wrong."""

    kind: str
    message: str
    cell: int | None = None
    line: int | None = None


def head_check(status: str, claim: str) -> str:
    """Return the heading of a message: the outcome of the check, then the claim.

    Without the heading, the claim would read as if it were true.
    """
    heading = HEADINGS.get(status)
    return f"{heading}: {claim}" if heading and claim else claim


def format_rows(heading: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return a heading, and below it the rows that are not empty, each after its label."""
    return "\n".join([heading, *(f"  {name:<9} {text}" for name, text in rows if text)])


def format_location(cell: int | None, line: int | None) -> str:
    """Return a location such as ' (cell 7, line 3)', or the part of it that is known."""
    known = [f"cell {cell}"] * (cell is not None) + [f"line {line}"] * (line is not None)
    return f" ({', '.join(known)})" if known else ""
