"""A property: one claim that holds for every correct implementation, and how it is checked.

The name of the check function is the property's name. The first line of its docstring is the claim,
which students read. The annotation of its parameter says whether it can be recorded.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast, get_type_hints

from headcheck.properties.cases.case_set import select_diverse
from headcheck.properties.cases.case_transforms import CaseTransform, identity, transform_cases
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import Harness, LiveContext
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.depth import Depth
from headcheck.properties.terms.group import PropertyGroup as PropertyGroup
from headcheck.properties.terms.peculiarity import Peculiarity, remove_all
from headcheck.properties.violations.violation import (
    NOT_FAILED,
    Status,
    SubmissionFailed,
    Violation,
    format_rows,
    head_check,
)

MIN_NATURAL_CASES = 8
"""If the case set has this many fitting cases, no transformed ones are added."""

USUAL_CASES = 4
"""the most cases of a property at the usual depth, unless the property says otherwise"""
UNSUPPORTED_MESSAGE = "Not tried, because this is not supported"
NOT_ASKED_MESSAGE = "Not tried for lack of time, which earns no points"
ASKED_IN_PART_MESSAGE = (
    "Not tried for lack of time on some inputs, which earns a part of the points"
)
Sizes = Mapping[str, object]
"""values of some fields of a case"""
SizesSource = Callable[[], Iterable[Sizes]]
"""returns sizes, the most telling first"""
CaseSelection = Callable[[Sequence[Case]], Sequence[Case]]
"""selects some of the given cases"""
RecordableCheck = Callable[[CaseContext], None]
CheckFunction = Callable[[LiveContext], None]
"""Every `RecordableCheck` is also a `CheckFunction`, because a LiveContext is a CaseContext."""


@dataclass(frozen=True, eq=False)
class Property:
    """One property; there is only one object for each property."""

    name: str
    claim: str
    group: PropertyGroup
    check: CheckFunction = field(repr=False)
    """raises Violation where the claim does not hold"""
    recordable_check: RecordableCheck | None = field(default=None, repr=False)
    """the same function if it takes a CaseContext; None if it needs a live submission"""
    needs: frozenset[Capability] = frozenset()
    transform: CaseTransform = field(default=identity, repr=False)
    requires: tuple["Property", ...] = field(default=(), repr=False)
    limit: int = 24
    usual: int = USUAL_CASES
    """the most cases at the usual depth; with none, only a thorough check asks the property"""
    hint: str = ""
    dtypes: tuple[str, ...] = ("float64", "float32")
    redundant_because: str = ""
    """why the property exists although it follows from the properties that it requires"""
    list_sizes: SizesSource | None = field(default=None, repr=False)
    """returns the sizes at which to check the property, if they do not come from the case set"""
    choose: CaseSelection = field(default=tuple, repr=False)
    """selects cases for the check from those that fit"""
    about: Peculiarity | None = None
    """the peculiarity that this property tests; if the property fails, all others use cases without
    the peculiarity
    """
    essential: bool = False
    """whether the points of its group depend on the property: if it fails, the group earns no
    points
    """

    def applies_to(self, contract: Contract) -> bool:
        """Return whether the property makes sense for this contract."""
        return self.needs <= contract.capabilities

    def select_cases(
        self, contract: Contract, case_set: Iterable[Case], depth: Depth = Depth.THOROUGH
    ) -> tuple[Case, ...]:
        """Select the cases on which to check this property from a case set, and keep their order.

        Unchanged cases are preferred to transformed ones, so that properties share modules:
        constructing them costs most. The cases of the usual depth are among those of the other.
        """
        case_set, is_usual = tuple(case_set), depth is Depth.USUAL
        if self.list_sizes is not None:
            sizes = itertools.islice(self.list_sizes(), self.usual if is_usual else None)
            return self._apply_sizes(contract, case_set, sizes)
        unchanged = set(case_set)
        fitting = self.choose(transform_cases(contract, self.transform, case_set))
        natural = [case for case in fitting if case in unchanged]
        enough = len(natural) >= min(self.limit, MIN_NATURAL_CASES)
        limit = min(self.limit, self.usual) if is_usual else self.limit
        return (
            select_diverse(natural, limit)
            if enough
            else select_diverse(fitting, min(limit, MIN_NATURAL_CASES))
        )

    def replace_cases(
        self, contract: Contract, cases: Sequence[Case], without: Set[Peculiarity]
    ) -> Sequence[Case]:
        """Return cases without some peculiarities; none if the property needs the peculiarities.

        A property about something that the submission lacks keeps its cases.
        """
        is_plain = not any(each.is_in(case) for case in cases for each in without)
        if is_plain or not self.applies_to(contract):
            return cases
        plain = transform_cases(contract, self.transform, remove_all(cases, without))
        dtypes = {*self.dtypes, *(case.dtype for case in cases)}
        return [
            case
            for case in plain
            if case.dtype in dtypes and not any(each.is_in(case) for each in without)
        ]

    def _apply_sizes(
        self, contract: Contract, case_set: Sequence[Case], sizes: Iterable[Sizes]
    ) -> tuple[Case, ...]:
        """Return a case for each of these sizes; dtype, device and seed come from the case set."""
        drawn = itertools.cycle(case_set)
        cases = (_resize(case, each) for case, each in zip(drawn, sizes, strict=False))
        return transform_cases(contract, self.transform, cases)


def _resize(case: Case, sizes: Sizes) -> Case:
    """Return a case of these sizes; it is as long as its context unless the sizes say otherwise."""
    kept = {"dtype": case.dtype, "device": case.device, "seed": case.seed}
    filled = {"context_length": sizes["tokens"]}
    return Case(**{**kept, **filled, **sizes})  # type: ignore[arg-type]  # as the fields


@dataclass(frozen=True)
class PropertyFamily:
    """A family of properties: their group and their common prerequisites.

    Use it as a decorator factory: `@family_property(Capability.CAUSAL, on=at_least(tokens=2))`.
    """

    group: PropertyGroup
    requires: tuple[Property, ...] = ()

    def __call__(
        self,
        *needs: Capability,
        on: CaseTransform = identity,
        after: tuple[Property, ...] = (),
        sizes: Sequence[Sizes] | SizesSource | None = None,
        **fields: Any,
    ) -> Callable[[CheckFunction], Property]:
        """Return a decorator that makes a property; the other `fields` are those of `Property`."""

        def make(check: CheckFunction) -> Property:
            return Property(
                name=check.__name__,
                claim=(check.__doc__ or "").strip().partition("\n")[0],
                group=self.group,
                check=check,
                recordable_check=get_recordable_check(check),
                needs=frozenset(needs),
                transform=on,
                requires=self.requires + after,
                list_sizes=sizes if sizes is None or callable(sizes) else lambda: sizes,
                **fields,
            )

        return make


def get_recordable_check(check: CheckFunction) -> RecordableCheck | None:
    """Return a check function if it is annotated to take any CaseContext, else None.

    Raises TypeError if the annotation of `context` is neither of the two contexts.
    """
    annotation = get_type_hints(check).get("context")
    if annotation is CaseContext:
        return cast(RecordableCheck, check)
    if annotation is LiveContext:
        return None
    raise TypeError(f"{check.__name__}: annotate `context` as CaseContext or as LiveContext")


@dataclass(frozen=True)
class Verdict:
    """The result of checking one property of one submission."""

    property: Property
    status: Status
    cases_tried: int = 0
    case: Case | None = None
    violation: Violation | None = None
    failure: SubmissionFailed | None = None
    blocked_by: Property | None = None
    case_description: str = ""
    """the case in one line, in the terms of the exercise"""
    hint: str = ""
    """a better hint than the property's own, if the source code suggests one"""
    hint_is_certain: bool = False
    """whether that hint is true whatever the mistake is, such as one about a missing module"""
    without: frozenset[Peculiarity] = frozenset()
    """the peculiarities that its cases lack, because the properties about them had failed"""
    asked: float = 1.0
    """the share of its cases that were asked before the time was used up"""

    @cached_property
    def unsupported(self) -> bool:
        """Whether the check was impossible because a library or a device does not support it."""
        return self.status is Status.NOT_TRIED and self.failure is not None

    @cached_property
    def message(self) -> str:
        """The message for the student; empty if the property holds."""
        if self.violation is not None:
            return str(replace(self.violation, hint=self.hint or self.violation.hint))
        if self.unsupported:
            return f"{UNSUPPORTED_MESSAGE}: {self.failure}"
        if self.status is Status.NOT_ASKED:
            told = ASKED_IN_PART_MESSAGE if self.asked else NOT_ASKED_MESSAGE
            return f"{told}: {self.failure}"
        if self.failure is not None:
            rows = (  # the property's own hint is about what it asks, not about what was raised
                ("got", str(self.failure)),
                ("because", str(self.failure.crash or "")),
                ("after", self.failure.after),
                ("on", self.case_description),
                ("hint", self.hint),
            )
            return format_rows(head_check(self.status, self.property.claim), rows)
        if self.blocked_by is not None:
            return f"Not tried, because this check did not pass: {self.blocked_by.claim}"
        return ""

    def without_hint(self) -> "Verdict":
        """Return the verdict without its hint, which is only a guess if the mistake is known."""
        bare = None if self.violation is None else replace(self.violation, hint="")
        prop = replace(self.property, hint="")
        return replace(self, property=prop, violation=bare, hint="")

    @cached_property
    def redacted_message(self) -> str:
        """The message for runs that withhold their cases: without numbers and inputs."""
        if self.violation is not None:
            return replace(self.violation, hint=self.hint or self.violation.hint).redacted_message
        if self.failure is not None and self.status not in NOT_FAILED:
            crash = self.failure.crash
            rows = (
                ("got", self.failure.redacted_message),
                ("because", f"{crash.sentence}." if crash else ""),
                ("hint", self.hint),
            )
            return format_rows(head_check(self.status, self.property.claim), rows)
        return ""


CheckOnCases = Callable[[Property, Sequence[Case]], Verdict]
"""checks a property on these cases"""


def check_in_order(
    plan: Mapping[Property, Sequence[Case]], harness: Harness, check: CheckOnCases
) -> Iterator[Verdict]:
    """Check each property on its cases, unless one that it requires does not hold.

    A required property that could not be tried may hold, so properties that require it are still
    tried. If the required property is about something that the submission lacks, properties that
    work without this are tried as well. After a property about a peculiarity fails, the others are
    checked on cases without it.
    """
    broken: list[Property] = []
    harness.unsupported.clear()
    for prop, cases in plan.items():
        left = prop.replace_cases(harness.contract, cases, harness.unsupported.keys())
        required = (required for required in prop.requires if required in broken)
        blocked_by = next((r for r in required if r.needs & harness.lacking <= prop.needs), None)
        if blocked_by is None and cases and not left:
            blocked_by = next(p for p in broken if p.about and any(map(p.about.is_in, cases)))
        if blocked_by is None:
            verdict = check(prop, left)
            if verdict.status is Status.NOT_ASKED and left:
                verdict = replace(verdict, asked=verdict.cases_tried / len(left))
        else:
            verdict = Verdict(prop, Status.NOT_TRIED, blocked_by=blocked_by)
        if not (verdict.unsupported or verdict.status in (Status.PASSED, Status.NOT_ASKED)):
            broken.append(prop)
            if prop.about is not None and blocked_by is None:
                harness.unsupported[prop.about] = prop
        yield verdict
