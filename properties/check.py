"""Check a property on its cases, and find the smallest case on which it fails."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from headcheck.properties.cases.case_transforms import transform_cases
from headcheck.properties.cases.small_cases import enumerate_smaller, list_starting_cases
from headcheck.properties.contracts.case_description import describe_case
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.harness.harness import Harness, LiveContext
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.peculiarity import Peculiarity
from headcheck.properties.violations import support
from headcheck.properties.violations.violation import (
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
)

EXHAUSTIVE_LIMIT = 60
"""If there are at most this many smaller cases, all are tried; among more, Hypothesis chooses."""
VISIBLE = 0.1
"""the relative difference at which a reader sees that a number is wrong"""
OTHER_NUMBERS = 6
"""how many other seeds are tried with the smallest case to find a visible difference"""
MAX_SEARCHED = 100
"""the most cases that all searches on one submission may try; one example in a hundred needs more
"""
ADDED_IN_SHAPE = re.compile(r"^shape \((?:1, ){1,2}(\d+, \d+)\)")
ADDED_AXES = re.compile(r"^([^\[]+)\[(?:0, ){1,2}(\d+, \d+)\]")
Error = TypeVar("Error", bound=Exception)


@dataclass(frozen=True)
class Searched:
    """What the searches for smallest cases on one submission have found, and what they may try.

    Whoever makes several searches passes the result of one to the next. A search whose process was
    killed is simply made again.
    """

    counterexamples: tuple[Case, ...] = ()
    """small cases on which properties failed"""
    left: int = MAX_SEARCHED
    """how many more cases may be tried"""


def check_property(prop: Property, harness: Harness, cases: Sequence[Case]) -> Verdict:
    """Check one property on its selected cases; shrink a failing case as far as possible.

    Raises only internal errors. The caller must replace a dead process.
    """
    verdict, _ = shrink_failure(find_first_failure(prop, harness, cases), harness, Searched())
    return verdict


def shrink_failure(
    verdict: Verdict, harness: Harness, before: Searched
) -> tuple[Verdict, Searched]:
    """Return a verdict with the smallest case on which the property fails in the same way.

    The second result is for the next search. A small case on which another property failed is used
    if this property also fails on it: one example for several properties is easier to follow, and
    saves a search. A verdict without a failure that can be shrunk is returned unchanged. Raises the
    same errors as `check_property`.
    """
    prop, case, violation = verdict.property, verdict.case, verdict.violation
    if case is None or violation is None or not harness.contract.has(*prop.needs):
        return verdict, before
    search = CounterexampleSearch(prop, harness, violation.kind, before.left, verdict.without)
    examples = before.counterexamples
    if (reused := search.find_first(examples, case)) is not None:
        smallest, found = search.find_most_visible(reused)
    else:
        smallest, found = find_smallest_failure(search, case, violation)
        examples = (*examples, smallest)
    known = found.case or (verdict.case_description if smallest == case else "")
    on = known or describe_case(harness.contract, smallest)
    found = drop_added_axes(found, harness.contract)
    detailed = found.with_details(prop.claim, on, prop.hint)
    shrunk = replace(verdict, case=smallest, violation=detailed, case_description=on)
    return shrunk, Searched(examples, search.left)


def find_first_failure(prop: Property, harness: Harness, cases: Sequence[Case]) -> Verdict:
    """Check one property on cases in order, up to the first case on which it does not hold."""
    for tried, drawn in enumerate(cases, 1):
        context = harness.get_context_for(prop.needs, drawn)
        try:
            prop.check(context)
        except (Violation, SubmissionFailed) as error:
            known: Property | None = harness.unsupported.get(error.known) if error.known else None
            if known is not None and prop.about is None:
                return Verdict(prop, Status.NOT_TRIED, tried, blocked_by=known)
            return _record_failure(prop, context, error, tried)
    return Verdict(prop, Status.PASSED, len(cases))


def _record_failure(
    prop: Property, context: LiveContext, error: Violation | SubmissionFailed, tried: int
) -> Verdict:
    """Return the verdict on a property that does not hold on a case."""
    case, harness = context.case, context.harness
    called = error.called if isinstance(error, SubmissionFailed) else None
    on = error.case or describe_case(harness.contract, called or case)
    if isinstance(error, SubmissionFailed):
        failure = _strip_traceback(support.classify_failure(error, case))
        return Verdict(prop, failure.status, tried, case, failure=failure, case_description=on)
    violation = drop_added_axes(_strip_traceback(error), harness.contract)
    violation = violation.with_details(prop.claim, on, prop.hint)
    failed = Verdict(prop, Status.FAILED, tried, case, violation, case_description=on)
    return replace(failed, without=frozenset(harness.unsupported))


def drop_added_axes(violation: Violation, contract: Contract) -> Violation:
    """Return a violation without the axes that the answer's own results lack.

    Answers without a batch axis are compared as a batch of one, and weights without an axis for
    heads as those of one head.
    """
    if contract.has(Capability.BATCH):
        return violation
    changed = replace(violation, where=ADDED_AXES.sub(r"\1[\2]", violation.where))
    expected, got = violation.expected, violation.got
    both = ADDED_IN_SHAPE.match(expected) and ADDED_IN_SHAPE.match(got)
    if violation.kind is not ViolationKind.SHAPE or not both:
        return changed
    expected, got = (ADDED_IN_SHAPE.sub(r"shape (\1)", each) for each in (expected, got))
    return replace(changed, expected=expected, got=got)


def find_smallest_failure(
    search: "CounterexampleSearch", case: Case, violation: Violation
) -> tuple[Case, Violation]:
    """Search for the smallest case on which the property fails in the same way.

    The search begins with the first starting case on which the property fails. If only few cases
    are smaller than this one, all of them are tried; otherwise Hypothesis chooses.
    """
    search.tried[case] = violation
    start = search.find_first(list_starting_cases(case), case) or case
    few = enumerate_smaller(start, EXHAUSTIVE_LIMIT)
    if few:
        search.find_first(few, start)
    else:
        search.shrink(start)
    return search.find_most_visible(min(search.failing_cases, key=search.rank))


@dataclass(eq=False)
class CounterexampleSearch:
    """A search for cases on which a property fails in the same way; no case is checked twice.

    The number of cases is limited, because a submission that fails every property in another way
    would otherwise take hours. A time limit would give other examples in other runs.
    """

    prop: Property
    harness: Harness
    kind: ViolationKind
    left: int = MAX_SEARCHED
    """how many more cases may be tried"""
    without: frozenset[Peculiarity] = frozenset()
    """peculiarities that cases must not have"""
    tried: dict[Case, Violation | None] = field(default_factory=dict)

    @property
    def failing_cases(self) -> list[Case]:
        """The failing cases found so far."""
        return [c for c, v in self.tried.items() if v is not None and v.kind is self.kind]

    def get_violation(self, case: Case) -> tuple[Case, Violation]:
        """Return a failing case and its violation."""
        violation = self.tried[case]
        assert violation is not None, "the case fails"
        return case, violation

    def rank(self, case: Case) -> tuple[tuple[int, int], float, str]:
        """Return the sort key of failing cases: small cases first, then the largest difference."""
        return case.size, -self._get_difference(case), str(case)

    def _get_difference(self, case: Case) -> float:
        """Return the relative error of a wrong number; 1 if something else is wrong."""
        difference = self.get_violation(case)[1].difference
        return 1.0 if difference is None else difference

    def find_most_visible(self, case: Case) -> tuple[Case, Violation]:
        """Return a failing case, or the case with another seed that shows the difference better.

        A student learns nothing from 0.585276 in place of 0.585149.
        """
        tried = [case]
        with self.harness.suppress_notes():
            while self._get_difference(tried[-1]) < VISIBLE and len(tried) <= OTHER_NUMBERS:
                other = replace(case, seed=case.seed + len(tried))
                if not self._fails(other):
                    break
                tried.append(other)
        return self.get_violation(min(tried, key=self.rank))

    def find_first(self, cases: Iterable[Case], largest: Case) -> Case | None:
        """Return the first transformed case that fails and is no larger than `largest`.

        The returned case has the dtype and the device of `largest`.
        """
        candidates = (
            case
            for drawn in cases
            for case in self._transform_case(drawn)
            if (case.dtype, case.device) == (largest.dtype, largest.device)
            if case.size <= largest.size
        )
        with self.harness.suppress_notes():
            return next(filter(self._fails, candidates), None)

    def shrink(self, start: Case) -> None:
        """Let Hypothesis shrink a case, as far as the search budget allows."""
        # Importing it takes a third of a second, and few submissions need it.
        from headcheck.properties.cases.strategies import shrink

        with self.harness.suppress_notes():
            shrink(start, self.fails)

    def fails(self, drawn: Case) -> bool:
        """Return whether the property fails in the same way on this case after transformation."""
        return any(map(self._fails, self._transform_case(drawn)))

    def fails_untransformed(self, case: Case) -> bool:
        """Return whether the property fails on a case that already meets its needs."""
        return case in self._transform_case(case) and self._fails(case)

    def _transform_case(self, drawn: Case) -> tuple[Case, ...]:
        cases = transform_cases(self.harness.contract, self.prop.transform, [drawn])
        return tuple(case for case in cases if not any(each.is_in(case) for each in self.without))

    def _fails(self, case: Case) -> bool:
        if case not in self.tried and self.left > 0:
            self.left -= 1
            self.tried[case] = _find_violation(self.prop, self.harness.create_context(case))
        found = self.tried.get(case)
        return found is not None and found.kind is self.kind


def _find_violation(prop: Property, context: LiveContext) -> Violation | None:
    """Return how a property fails on a case; None if it holds."""
    try:
        prop.check(context)
    except Violation as violation:
        return _strip_traceback(violation)
    except SubmissionFailed:
        return None
    return None


def _strip_traceback(error: Error) -> Error:
    """Return an error that keeps nothing alive: its traceback would hold every tensor in use."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)
