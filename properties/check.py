"""A property judged on its cases, and the smallest case found on which it fails."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from properties import support
from properties.case import Case
from properties.cases.case_transforms import transform_cases
from properties.cases.small_cases import enumerate_smaller, list_starting_cases
from properties.harness.harness import Harness, LiveContext
from properties.property import Property, Verdict
from properties.violation import Status, SubmissionFailed, Violation, ViolationKind

EXHAUSTIVE_LIMIT = 60
"""So many cases are sooner tried one after the other than searched."""
SEARCH_BUDGET = 800
"""So many cases are tried in all searches on one subject; no known wrong answer needs 700."""
Error = TypeVar("Error", bound=Exception)


def check_property(prop: Property, harness: Harness, cases: Sequence[Case]) -> Verdict:
    """Judge one property on cases that it chose; a failing case is made as small as possible.

    Raises only what is our own fault. A dead process is the caller's to replace.
    """
    verdict = find_first_failure(prop, harness, cases)
    if verdict.violation is None or verdict.case is None:
        return verdict
    smallest, found = _reuse_counterexample(
        prop, harness, verdict.case, verdict.violation
    ) or find_smallest_failure(prop, harness, verdict.case, verdict.violation)
    on = harness.contract.describe(smallest)
    told = found.with_details(prop.claim, on, prop.hint)
    return replace(verdict, case=smallest, violation=told, case_description=on)


def find_first_failure(prop: Property, harness: Harness, cases: Sequence[Case]) -> Verdict:
    """Judge one property on cases, small ones first, up to the first on which it does not hold."""
    for tried, drawn in enumerate(cases, 1):
        context = harness.get_context_for(prop.needs, drawn)
        case = context.case
        try:
            prop.check(context)
        except Violation as violation:
            on = harness.contract.describe(case)
            return Verdict(
                prop,
                Status.FAILED,
                tried,
                case,
                violation=_strip_traceback(violation),
                case_description=on,
            )
        except SubmissionFailed as failed:
            on, failure = harness.contract.describe(case), support.classify_failure(failed, case)
            return Verdict(
                prop,
                failure.status,
                tried,
                case,
                failure=_strip_traceback(failure),
                case_description=on,
            )
    return Verdict(prop, Status.PASSED, len(cases))


def _reuse_counterexample(
    prop: Property, harness: Harness, case: Case, violation: Violation
) -> tuple[Case, Violation] | None:
    """A small case on which another claim failed, if this one fails there in the same way.

    One example for several claims is easier to follow than several, and nothing is searched for.
    """
    search = CounterexampleSearch(prop, harness, violation.kind)
    shown = search.find_first(harness.counterexamples, case)
    return None if shown is None else search.get_violation(shown)


def find_smallest_failure(
    prop: Property, harness: Harness, case: Case, violation: Violation
) -> tuple[Case, Violation]:
    """Look for the smallest case on which the property fails in the same way.

    The search begins at the first rung of a ladder of examples on which that is so. If there are
    few cases below, all of them are tried; if there are many, Hypothesis chooses.
    """
    search = CounterexampleSearch(prop, harness, violation.kind, {case: violation})
    start = search.find_first(list_starting_cases(case), case) or case
    few = enumerate_smaller(start, EXHAUSTIVE_LIMIT)
    if few:
        search.find_first(few, start)
    else:
        search.shrink(start)
    smallest = min(search.failing_cases, key=lambda c: (c.size, str(c)))
    harness.counterexamples.append(smallest)
    return search.get_violation(smallest)


@dataclass(frozen=True)
class CounterexampleSearch:
    """A search for cases on which a property fails in the same way; none is judged twice.

    All searches on a subject share a number of cases: what fails everywhere, and differently each
    time, would be searched for hours. The count is the same in every run, and so is the example.
    """

    prop: Property
    harness: Harness
    kind: ViolationKind
    tried: dict[Case, Violation | None] = field(default_factory=dict)

    @property
    def failing_cases(self) -> list[Case]:
        """The cases found."""
        return [c for c, v in self.tried.items() if v is not None and v.kind is self.kind]

    def get_violation(self, case: Case) -> tuple[Case, Violation]:
        """One of them, with what was wrong there."""
        found = self.tried[case]
        assert found is not None
        return case, found

    def find_first(self, cases: Iterable[Case], largest: Case) -> Case | None:
        """The first that fails, as the property prepares it: where one is, and no larger."""
        there = (case for drawn in cases for case in self._transform_case(drawn))
        like = [largest.dtype, largest.device]
        with self.harness.suppress_notes():
            return next(
                (
                    c
                    for c in there
                    if [c.dtype, c.device] == like and c.size <= largest.size and self._fails(c)
                ),
                None,
            )

    def shrink(self, start: Case) -> None:
        """Let Hypothesis make a case smaller, as far as its budget goes."""
        # It takes a third of a second to import, and few submissions need it.
        from properties.cases import shrinking

        with self.harness.suppress_notes():
            shrinking.shrink(start, self.fails)

    def fails(self, drawn: Case) -> bool:
        """Whether the property fails in the same way on this case."""
        return any(self._fails(chosen) for chosen in self._transform_case(drawn))

    def _transform_case(self, drawn: Case) -> tuple[Case, ...]:
        return transform_cases(self.harness.contract, self.prop.transform, [drawn])

    def _fails(self, case: Case) -> bool:
        if case not in self.tried and self.harness.search_count < SEARCH_BUDGET:
            self.harness.search_count += 1
            self.tried[case] = _find_violation(self.prop, self.harness.create_context(case))
        found = self.tried.get(case)
        return found is not None and found.kind is self.kind


def _find_violation(prop: Property, context: LiveContext) -> Violation | None:
    """How a property fails on a trial, if it does."""
    try:
        prop.check(context)
    except Violation as found:
        return _strip_traceback(found)
    except SubmissionFailed:
        return None
    return None


def _strip_traceback(error: Error) -> Error:
    """An exception that keeps nothing alive: its traceback holds every tensor of the judging."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)
