"""Find the failed properties that follow from named mistakes.

Theory of operation
    A submission with a known mistake fails many properties, most of them because of that mistake.
    Which failures follow from it is not looked up in tables but tried out: an attention with
    exactly these mistakes (`properties.mistakes.faulty_attention`) is checked on the case on which
    the submission failed. A failure follows from the mistakes if this attention fails the property
    in the same way, and an attention without mistakes does not fail it on that case. The second
    condition shows that nothing else in our module is to blame.

    The attention is our own code and runs in this process. Its outcome on a case does not depend on
    the submission, so a mistake that is frequent in a class is tried only once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from headcheck.grader import fault
from headcheck.grader.grading.recording import TOLD_OF_ITSELF, Explained
from headcheck.grader.report.records import NoteRecord
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.check import find_first_failure
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue.structure import BESIDE_OTHERS, STRUCTURAL
from headcheck.properties.mistakes.catalogue.symptom import StructuralMistake
from headcheck.properties.mistakes.faulty_attention import (
    Computation,
    list_computations,
    make_correct_computation,
    make_namespace,
    restate,
)
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake, recognise
from headcheck.properties.property import Property, Verdict
from headcheck.properties.sized_cache import EACH, SizedCache
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status

MAX_NUMEL = 1 << 22
"""a property is tried again only on cases with at most this many weights and scores in total"""
MAX_KNOWN = 1 << 14
Outcome = tuple[str, str]
"""a status, with the kind of difference or the type of the exception"""
PASSED: Outcome = (Status.PASSED.value, "")
_OUTCOMES = SizedCache[Outcome](MAX_KNOWN * EACH)


@dataclass(frozen=True)
class ComputationChecker:
    """Checks properties on an attention with a given computation."""

    contract: Contract
    """the contract in canonical form"""
    computation: Computation

    @cached_property
    def harness(self) -> Harness:
        namespace = make_namespace(self.contract, self.computation)
        harness = Harness(make_subject(namespace), self.contract)
        harness.contract = self.contract
        return harness

    def check(self, prop: Property, case: Case) -> Outcome:
        """Return the outcome of a property on a case."""

        def check() -> Outcome:
            return get_outcome(find_first_failure(prop, self.harness, [case]))

        return _OUTCOMES.get_or_make(
            (self.contract, self.computation, prop, case), check, lambda _: 0
        )


def get_outcome(verdict: Verdict) -> Outcome:
    """Return how a property failed, if it did."""
    if verdict.violation is not None:
        return verdict.status.value, verdict.violation.kind.value
    raised = "" if verdict.failure is None else verdict.failure.message.partition(":")[0]
    return verdict.status.value, raised


def explain_verdicts(
    contract: Contract, verdicts: Sequence[Verdict], diagnosed: Sequence[DiagnosedMistake]
) -> Explained:
    """Return the failures that follow from diagnosed mistakes, and what explains the rest."""
    try:
        found = find_consequences(contract, verdicts, diagnosed) if diagnosed else frozenset()
        spoilt = _list_spoilt(verdicts)
        found |= _list_said(verdicts, diagnosed) | frozenset(spoilt)
        left = [v for v in verdicts if _has_failed(v) and v.property not in found]
        known = BESIDE_OTHERS if diagnosed else STRUCTURAL
        structural = recognise(Failures(contract, left), map(SymptomRecogniser, known))
    except Exception as error:  # A fault of ours is no reason to lose a grade, and is reported.
        return Explained(faults=(NoteRecord(fault.ERROR_KIND, fault.describe(error)),))
    if not structural:
        return Explained(found.union(spoilt.values()))
    return Explained(found.union(v.property for v in left), structural)


def find_consequences(
    contract: Contract, verdicts: Sequence[Verdict], diagnosed: Sequence[DiagnosedMistake]
) -> frozenset[Property]:
    """Return the properties that fail only because of the diagnosed mistakes.

    If the mistakes can be made in several ways, the way with the most consequences counts.
    """
    restated = restate(contract)
    tried = [verdict for verdict in verdicts if _can_follow(verdict, restated)]
    right = ComputationChecker(restated, make_correct_computation(contract))
    ways = (each.draw_several() for each in list_computations(contract, diagnosed))
    checkers = ([ComputationChecker(restated, draw) for draw in draws] for draws in ways)
    found = (frozenset(v.property for v in tried if _follows(v, each, right)) for each in checkers)
    return max(found, key=len, default=frozenset())


def _list_said(
    verdicts: Sequence[Verdict], diagnosed: Sequence[DiagnosedMistake]
) -> frozenset[Property]:
    """Return the failures that a mistake's sentence already describes.

    Failures that may have the same reason are included.
    """
    names = {each.mistake.name for each in diagnosed}
    said = [each for each in STRUCTURAL if names.intersection(each.said_by)]
    shown = [each for each in said if any(map(each.is_shown_by, verdicts))]
    failed = [verdict for verdict in verdicts if _has_failed(verdict)]
    return frozenset(
        v.property
        for v in failed
        if any(each.is_shown_by(v) or v.property in each.explains for each in shown)
    )


def _list_spoilt(verdicts: Sequence[Verdict]) -> dict[Property, Property]:
    """Return the failures that are due only to NaN or a wrong dtype, and the property about it.

    The numbers in place of NaN, or in the right dtype, are unknown, so it is also unknown whether
    such a property's claim would hold.
    """
    kinds = {v.property: v.violation.kind for v in verdicts if v.violation is not None}
    told = {kind: prop for prop, kind in TOLD_OF_ITSELF.items() if kinds.get(prop) is kind}
    others = {prop: kind for prop, kind in kinds.items() if prop not in TOLD_OF_ITSELF}
    return {prop: told[kind] for prop, kind in others.items() if kind in told}


@dataclass(frozen=True)
class Failures:
    """The failures that mistakes in the equation leave unexplained."""

    contract: Contract
    verdicts: Sequence[Verdict]


@dataclass(frozen=True)
class SymptomRecogniser:
    """Names a mistake outside the equation if some failures show it and it explains all others."""

    structural: StructuralMistake

    def __call__(self, failures: Failures) -> tuple[DiagnosedMistake, ...]:
        shown = any(map(self.structural.is_shown_by, failures.verdicts))
        named = DiagnosedMistake(self.structural.mistake, 0, 0, symptoms=self.structural)
        return (named,) if shown and self._explains_all(failures) else ()

    def _explains_all(self, failures: Failures) -> bool:
        """Whether all failures are symptoms of the mistake or follow from it."""
        structural, contract = self.structural, failures.contract
        left = [
            verdict
            for verdict in failures.verdicts
            if not structural.is_shown_by(verdict) and verdict.property not in structural.explains
        ]
        restated, correct = restate(contract), make_correct_computation(contract)
        if not left or not all(_can_follow(verdict, restated) for verdict in left):
            return not left
        right = ComputationChecker(restated, correct)
        ways = (replace(correct, wrapper=wrapper) for wrapper in structural.wrappers)
        checkers = [ComputationChecker(restated, way) for way in ways]
        return all(_follows(verdict, checkers, right) for verdict in left)


def _has_failed(verdict: Verdict) -> bool:
    return verdict.status in (Status.FAILED, Status.CRASHED)


def _can_follow(verdict: Verdict, contract: Contract) -> bool:
    """Whether a verdict is a failure that can be tried again."""
    failed = _has_failed(verdict)
    if not failed or verdict.case is None or not contract.has(*verdict.property.needs):
        return False
    case = verdict.case
    scores = case.batch * case.heads * case.tokens**2
    return scores + case.d_out * max(case.d_in, case.d_out) <= MAX_NUMEL


def _follows(
    verdict: Verdict, wrong: Sequence[ComputationChecker], right: ComputationChecker
) -> bool:
    """Whether a wrong attention fails a property in the same way, and the correct one does not."""
    assert verdict.case is not None, "a verdict that can be tried again has a case"
    case, prop = replace(verdict.case, device="cpu"), verdict.property
    likewise = any(each.check(prop, case) == get_outcome(verdict) for each in wrong)
    return likewise and right.check(prop, case) == PASSED
