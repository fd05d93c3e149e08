"""Symptoms of mistakes outside the computation of attention: the checks that fail."""

import re
from collections.abc import Callable, Set
from dataclasses import dataclass, field

from headcheck.properties.mistakes.catalogue.mistake import Mistake, define_mistake
from headcheck.properties.mistakes.steps.calls import CallWrapper
from headcheck.properties.property import Property, Verdict
from headcheck.properties.violations.violation import (
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
)

Shape = tuple[int, ...]
ANY_KIND = frozenset(ViolationKind)


@dataclass(frozen=True)
class Symptom:
    """Failures that can have only one cause, selected by kind, by reason, or by a crash."""

    properties: tuple[Property, ...]
    kinds: Set[ViolationKind] = frozenset()
    """kinds of violations that are symptoms whatever their reason"""
    reasons: Set[str] = frozenset()
    """reasons for which a violation is a symptom whatever its kind"""
    without: Set[str] = frozenset()
    """reasons for which a violation of one of the kinds is not a symptom"""
    crashes: str | None = None
    """a pattern for the message of an exception from Python or torch; an empty pattern matches any
    """
    dtype: str = ""
    """the dtype that the case must have, if failures in other dtypes could have other causes"""
    after: str | None = None
    """a pattern for the earlier calls on which the failure must depend"""

    def is_shown_by(self, verdict: Verdict) -> bool:
        """Whether a verdict shows this symptom."""
        if verdict.property not in self.properties or verdict.case is None:
            return False
        error = _get_failure(verdict)
        if error is None or self.dtype not in ("", verdict.case.dtype):
            return False
        if self.after is not None and not (error.after and re.search(self.after, error.after)):
            return False
        if isinstance(error, SubmissionFailed):
            return self.crashes is not None and bool(
                re.search(self.crashes, error.message, re.DOTALL)
            )
        is_meant = error.kind in self.kinds and error.reason not in self.without
        return is_meant or error.reason in self.reasons


@dataclass(frozen=True)
class ShapeSymptom:
    """Results whose shape differs from the expected one in a way that shows the cause."""

    properties: tuple[Property, ...]
    shows: Callable[[Shape, Shape], bool]
    """returns whether the expected shape and the actual shape show the cause"""
    of: str = ""
    """the name of the result with the wrong shape; any result if empty"""

    def is_shown_by(self, verdict: Verdict) -> bool:
        """Whether a verdict shows this symptom."""
        error = _get_failure(verdict)
        if not isinstance(error, Violation) or error.shapes is None:
            return False
        is_meant = error.where.startswith(self.of) and verdict.property in self.properties
        return is_meant and self.shows(*error.shapes)


def _get_failure(verdict: Verdict) -> Violation | SubmissionFailed | None:
    if verdict.status is Status.CRASHED:
        return verdict.failure
    return verdict.violation if verdict.status is Status.FAILED else None


def lacks_axes_of_length_one(expected: Shape, got: Shape) -> bool:
    """Whether a shape lacks axes of length one, and no others."""
    long = [[n for n in shape if n != 1] for shape in (expected, got)]
    return len(got) < len(expected) and long[0] == long[1]


@dataclass(frozen=True, eq=False)
class StructuralMistake:
    """A mistake outside the computation of attention."""

    mistake: Mistake
    symptoms: tuple[Symptom | ShapeSymptom, ...]
    """the symptoms; any one of them shows the mistake"""
    explains: tuple[Property, ...] = ()
    """properties that may also fail for the same reason"""
    said_by: tuple[str, ...] = ()
    """mistakes in the equation whose sentences already say the same"""
    causes: tuple[str, ...] = ()
    """mistakes in the equation that may follow from this mistake, and are reported after it"""
    wrappers: tuple[CallWrapper, ...] = field(default=(), repr=False)
    """wrappers that make the mistake, which are used to find what else fails because of it"""

    def is_shown_by(self, verdict: Verdict) -> bool:
        """Whether a verdict shows one of the symptoms."""
        return any(symptom.is_shown_by(verdict) for symptom in self.symptoms)


def define_structural_mistake(
    name: str,
    sentence: str,
    *symptoms: Symptom | ShapeSymptom,
    code_matchers: str = "",
    explains: tuple[Property, ...] = (),
    said_by: tuple[str, ...] = (),
    causes: tuple[str, ...] = (),
    wrappers: tuple[CallWrapper, ...] = (),
) -> StructuralMistake:
    """Return a mistake with its symptoms; `define_mistake` explains the code matchers."""
    mistake = define_mistake(name, sentence, code_matchers)
    return StructuralMistake(mistake, symptoms, explains, said_by, causes, wrappers)
