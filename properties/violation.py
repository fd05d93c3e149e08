"""What a failed property says, and the ways in which judging a submission can end."""

from dataclasses import dataclass, replace
from enum import StrEnum


class Status(StrEnum):
    """How judging one property of one submission ended. A fault of ours is never a status."""

    PASSED = "passed"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    NOT_TRIED = "not_tried"


class Kind(StrEnum):
    """What differs, in the order of looking: a wrong shape is said before a wrong value."""

    CONSTRUCTION = "construction"
    TYPE = "type"
    SHAPE = "shape"
    DTYPE = "dtype"
    DEVICE = "device"
    FINITE = "finite"
    VALUE = "value"


@dataclass(eq=False)
class Violation(Exception):
    """A property does not hold. Not frozen, because Python and Hypothesis write on exceptions.

    Says, in this order: claim, expected, got, where, on which case, hint; so that a reader needs
    no source to understand it. `claim`, `case` and `hint` are filled in by `check`.
    """

    kind: Kind
    expected: str
    got: str
    where: str = ""
    claim: str = ""
    case: str = ""
    hint: str = ""

    def on(self, claim: str, case: str, hint: str) -> "Violation":
        return replace(self, claim=claim, case=case, hint=self.hint or hint)

    def __str__(self) -> str:
        at = f" at {self.where}" if self.where else ""
        rows = (
            ("expected", f"{self.expected}{at}"),
            ("got", self.got),
            ("on", self.case),
            ("hint", self.hint),
        )
        return "\n".join([self.claim, *(f"  {name:<9} {text}" for name, text in rows if text)])


@dataclass(eq=False)
class SubmissionFailed(Exception):
    """The submission itself went wrong: it raised, took too long, or asked for too much memory.

    `cell` and `line` say where in the student's own code, when that is known.
    """

    status: Status
    message: str
    cell: int | None = None
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.message}{place(self.cell, self.line)}"


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth saying about a submission that does not make it wrong."""

    kind: str
    message: str
    cell: int | None = None
    line: int | None = None


def place(cell: int | None, line: int | None) -> str:
    """' (cell 7, line 3)', or as much of it as is known."""
    known = [f"cell {cell}"] * (cell is not None) + [f"line {line}"] * (line is not None)
    return f" ({', '.join(known)})" if known else ""
