"""Claims about cases alone, and faults planted in some of them."""

from collections.abc import Callable
from dataclasses import replace

from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.harness.harness import Harness, LiveContext
from headcheck.properties.property import CheckFunction, Property, PropertyGroup
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Violation, ViolationKind

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
