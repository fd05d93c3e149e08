"""Claims about cases alone with faults in some, and mistakes planted in the equation."""

from collections.abc import Callable
from dataclasses import replace

from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.harness.harness import Harness, LiveContext
from headcheck.properties.mistakes.catalogue import Mistake
from headcheck.properties.mistakes.diagnosis import diagnose
from headcheck.properties.mistakes.faulty_attention import Computation, make_namespace, restate
from headcheck.properties.mistakes.pipeline import CORRECT, StepOverrides
from headcheck.properties.property import CheckFunction, Property, PropertyGroup
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import (
    Violation,
    ViolationKind,
)

# No parameters and no module: a judge that looks at the case alone needs no submission.
CONTRACT = Contract(
    name="any",
    capabilities=frozenset(
        {
            Capability.BATCH,
            Capability.HEADS,
            Capability.CONTEXT,
            Capability.BIAS_OPTION,
            Capability.DROPOUT,
            Capability.MASK,
            Capability.STRIDED,
        }
    ),
)
BANK = generate_case_set(CONTRACT, 24)
SMALLEST = Case(tokens=1, context_length=1)
Fault = Callable[[Case], bool]


def nobody() -> Harness:
    return Harness(make_subject({}), CONTRACT)


def claim(judge: CheckFunction, **changes: object) -> Property:
    made = Property("it", "It is right.", PropertyGroup.VALUES, judge, hint="look again")
    return replace(made, **changes)  # type: ignore[arg-type]  # each names a field


def wrong_where(fault: Fault, kind: ViolationKind = ViolationKind.VALUE) -> CheckFunction:
    def judge(context: LiveContext) -> None:
        if fault(context.case):
            raise Violation(kind, "right", f"wrong for {context.case.tokens} tokens")

    return judge


def name_mistakes(contract: Contract, way: StepOverrides) -> list[Mistake]:
    """Return the mistakes that are named if the equation is computed in this way."""
    restated = restate(contract)
    namespace = make_namespace(restated, Computation((CORRECT.override(way),)))
    return [found.mistake for found in diagnose(Harness(make_subject(namespace), restated))]
