"""A property judged on its cases, and the smallest case found on which it fails."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from properties import support
from properties.case import Case
from properties.cases.case_transforms import prepared
from properties.cases.small_cases import few_smaller, rungs
from properties.harness.harness import Bench, Trial
from properties.property import Property, Verdict
from properties.violation import Kind, Status, SubmissionFailed, Violation

FEW = 60
"""So many cases are sooner tried one after the other than searched."""
SEARCHED = 800
"""So many cases are tried in all searches on one subject; no known wrong answer needs 700."""
Error = TypeVar("Error", bound=Exception)


def check(wanted: Property, bench: Bench, cases: Sequence[Case]) -> Verdict:
    """Judge one property on cases that it chose; a failing case is made as small as possible.

    Raises only what is our own fault. A dead process is the caller's to replace.
    """
    verdict = first_trouble(wanted, bench, cases)
    if verdict.violation is None or verdict.case is None:
        return verdict
    smallest, found = _shown_before(wanted, bench, verdict.case, verdict.violation) or simplest(
        wanted, bench, verdict.case, verdict.violation
    )
    on = bench.contract.told(smallest)
    told = found.on(wanted.claim, on, wanted.hint)
    return replace(verdict, case=smallest, violation=told, on=on)


def first_trouble(wanted: Property, bench: Bench, cases: Sequence[Case]) -> Verdict:
    """Judge one property on cases, small ones first, up to the first on which it does not hold."""
    for tried, drawn in enumerate(cases, 1):
        trial = bench.trial_for(wanted.needs, drawn)
        case = trial.case
        try:
            wanted.judge(trial)
        except Violation as violation:
            on = bench.contract.told(case)
            return Verdict(wanted, Status.FAILED, tried, case, violation=_bare(violation), on=on)
        except SubmissionFailed as failed:
            on, failure = bench.contract.told(case), support.judged(failed, case)
            return Verdict(wanted, failure.status, tried, case, failure=_bare(failure), on=on)
    return Verdict(wanted, Status.PASSED, len(cases))


def _shown_before(
    wanted: Property, bench: Bench, case: Case, violation: Violation
) -> tuple[Case, Violation] | None:
    """A small case on which another claim failed, if this one fails there in the same way.

    One example for several claims is easier to follow than several, and nothing is searched for.
    """
    search = Search(wanted, bench, violation.kind)
    shown = search.first(bench.shown, case)
    return None if shown is None else search.failing(shown)


def simplest(
    wanted: Property, bench: Bench, case: Case, violation: Violation
) -> tuple[Case, Violation]:
    """Look for the smallest case on which the property fails in the same way.

    The search begins at the first rung of a ladder of examples on which that is so. If there are
    few cases below, all of them are tried; if there are many, Hypothesis chooses.
    """
    search = Search(wanted, bench, violation.kind, {case: violation})
    start = search.first(rungs(case), case) or case
    few = few_smaller(start, FEW)
    if few:
        search.first(few, start)
    else:
        search.shrink(start)
    smallest = min(search.failed, key=lambda c: (c.size, str(c)))
    bench.shown.append(smallest)
    return search.failing(smallest)


@dataclass(frozen=True)
class Search:
    """A search for cases on which a property fails in the same way; none is judged twice.

    All searches on a subject share a number of cases: what fails everywhere, and differently each
    time, would be searched for hours. The count is the same in every run, and so is the example.
    """

    wanted: Property
    bench: Bench
    kind: Kind
    tried: dict[Case, Violation | None] = field(default_factory=dict)

    @property
    def failed(self) -> list[Case]:
        """The cases found."""
        return [c for c, v in self.tried.items() if v is not None and v.kind is self.kind]

    def failing(self, case: Case) -> tuple[Case, Violation]:
        """One of them, with what was wrong there."""
        found = self.tried[case]
        assert found is not None
        return case, found

    def first(self, cases: Iterable[Case], largest: Case) -> Case | None:
        """The first that fails, as the property prepares it: where one is, and no larger."""
        there = (case for drawn in cases for case in self._prepared(drawn))
        like = [largest.dtype, largest.device]
        with self.bench.quiet():
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

        with self.bench.quiet():
            shrinking.shrink(start, self.fails)

    def fails(self, drawn: Case) -> bool:
        """Whether the property fails in the same way on this case."""
        return any(self._fails(chosen) for chosen in self._prepared(drawn))

    def _prepared(self, drawn: Case) -> tuple[Case, ...]:
        return prepared(self.bench.contract, self.wanted.prepare, [drawn])

    def _fails(self, case: Case) -> bool:
        if case not in self.tried and self.bench.searched < SEARCHED:
            self.bench.searched += 1
            self.tried[case] = _violation(self.wanted, self.bench.fresh(case))
        found = self.tried.get(case)
        return found is not None and found.kind is self.kind


def _violation(wanted: Property, trial: Trial) -> Violation | None:
    """How a property fails on a trial, if it does."""
    try:
        wanted.judge(trial)
    except Violation as found:
        return _bare(found)
    except SubmissionFailed:
        return None
    return None


def _bare(error: Error) -> Error:
    """An exception that keeps nothing alive: its traceback holds every tensor of the judging."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)
