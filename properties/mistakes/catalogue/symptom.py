"""Symptoms of mistakes outside the computation of attention: the checks that fail."""

import re
from dataclasses import dataclass, field

from headcheck.properties.mistakes.catalogue.mistake import Mistake
from headcheck.properties.mistakes.steps.calls import CallWrapper
from headcheck.properties.property import Property, Verdict
from headcheck.properties.violation import Status


@dataclass(frozen=True)
class Symptom:
    """Failures that can have only one cause.

    A pattern is matched against `kind: expected at where (after) -> got`, or `crashed: message`.
    """

    pattern: str
    properties: tuple[Property, ...]
    dtype: str = ""
    """the dtype that the case must have, if another dtype could have other causes"""
    after: bool = False
    """whether the failure must depend on earlier calls"""

    def is_shown_by(self, verdict: Verdict) -> bool:
        """Whether a verdict is such a failure."""
        if verdict.property not in self.properties or verdict.case is None:
            return False
        found = re.search(self.pattern, describe_failure(verdict), re.DOTALL)
        error = verdict.violation or verdict.failure
        happened = bool(error is not None and error.after) or not self.after
        return found is not None and happened and self.dtype in ("", verdict.case.dtype)


@dataclass(frozen=True)
class SqueezedShape:
    """A result that lacks axes of length one, and no others."""

    properties: tuple[Property, ...]

    def is_shown_by(self, verdict: Verdict) -> bool:
        """Whether a verdict is such a failure."""
        match = re.match(r"shape: shape \((.*?)\).*-> shape \((.*?)\)$", describe_failure(verdict))
        if verdict.property not in self.properties or match is None:
            return False
        expected, got = ([int(n) for n in re.findall(r"\d+", text)] for text in match.groups())
        long = [[n for n in shape if n != 1] for shape in (expected, got)]
        return len(got) < len(expected) and long[0] == long[1]


@dataclass(frozen=True, eq=False)
class StructuralMistake:
    """A mistake outside the computation of attention."""

    mistake: Mistake
    symptoms: tuple[Symptom | SqueezedShape, ...]
    """the symptoms, any of which shows the mistake"""
    explains: tuple[Property, ...] = ()
    """properties that may fail, too, for the same reason"""
    said_by: tuple[str, ...] = ()
    """mistakes in the equation whose sentences say the same"""
    causes: tuple[str, ...] = ()
    """mistakes in the equation that may follow from it, and are named after it"""
    wrappers: tuple[CallWrapper, ...] = field(default=(), repr=False)
    """ways to make the mistake, which show what else fails because of it"""

    def is_shown_by(self, verdict: Verdict) -> bool:
        """Whether a verdict is a symptom."""
        return any(symptom.is_shown_by(verdict) for symptom in self.symptoms)


def describe_failure(verdict: Verdict) -> str:
    """Return the text that symptoms match; empty if a property was not tried, or holds."""
    if verdict.status is Status.CRASHED and verdict.failure is not None:
        return f"crashed: {verdict.failure.message}"
    if verdict.status is Status.FAILED and verdict.violation is not None:
        found = verdict.violation
        after = f" ({found.after})" if found.after else ""
        return f"{found.kind}: {found.expected} at {found.where}{after} -> {found.got}"
    return ""
