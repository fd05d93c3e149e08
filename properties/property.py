"""A property: one claim that holds of every correct implementation, and how it is checked.

The name of the judging function is the property's name, the first line of its docstring the claim
that a student reads.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import HypothesisException, NoSuchExample

from properties.case import Case
from properties.contract import Contract, Trait
from properties.group import Group as Group
from properties.strategies import Prepare, as_drawn, few_smaller, prepared, rungs, smaller, spread
from properties.trial import Bench, Trial
from properties.violation import Kind, Status, SubmissionFailed, Violation

SHRINKING_CALLS = 60
FEW = 60
"""So many cases are sooner tried one after the other than searched."""
ENOUGH = 8
"""So many cases of the bank as they are need no others beside them."""


Error = TypeVar("Error", bound=Exception)
Judge = Callable[[Trial], None]


@dataclass(frozen=True, eq=False)
class Property:
    """One claim; there is one object of each. `judge` raises Violation where it does not hold."""

    name: str
    claim: str
    group: Group
    judge: Judge = field(repr=False)
    needs: frozenset[Trait] = frozenset()
    prepare: Prepare = field(default=as_drawn, repr=False)
    requires: tuple["Property", ...] = field(default=(), repr=False)
    limit: int = 24
    hint: str = ""
    dtypes: tuple[str, ...] = ("float64", "float32")
    echo: str = ""
    """why it is there although what it says follows from what it requires"""

    def applies_to(self, contract: Contract) -> bool:
        """Whether the claim makes sense for this contract."""
        return self.needs <= contract.traits

    def choose(self, contract: Contract, bank: Iterable[Case]) -> tuple[Case, ...]:
        """The cases of the bank that this property wants, or can be made of it; unlike ones first.

        Cases as they are go before others, so that claims share them: constructing costs most.
        """
        there = set(bank := tuple(bank))
        fitting = prepared(contract, self.prepare, bank)
        natural = [case for case in fitting if case in there]
        enough = len(natural) >= min(self.limit, ENOUGH)
        return spread(natural, self.limit) if enough else spread(fitting, min(self.limit, ENOUGH))


@dataclass(frozen=True)
class Claims:
    """A family of properties: their group, and what must hold before they are worth trying.

    Use as a decorator factory: `@claims(Trait.CAUSAL, on=at_least(tokens=2))`.
    """

    group: Group
    requires: tuple[Property, ...] = ()

    def __call__(
        self,
        *needs: Trait,
        on: Prepare = as_drawn,
        after: tuple[Property, ...] = (),
        limit: int = 24,
        hint: str = "",
        dtypes: tuple[str, ...] = ("float64", "float32"),
        echo: str = "",
    ) -> Callable[[Judge], Property]:
        def make(judge: Judge) -> Property:
            claim = (judge.__doc__ or "").strip().partition("\n")[0]
            return Property(
                name=judge.__name__,
                claim=claim,
                group=self.group,
                judge=judge,
                needs=frozenset(needs),
                prepare=on,
                requires=self.requires + after,
                limit=limit,
                hint=hint,
                dtypes=dtypes,
                echo=echo,
            )

        return make


@dataclass(frozen=True)
class Verdict:
    """What became of one property of one submission."""

    property: Property
    status: Status
    tried: int = 0
    case: Case | None = None
    violation: Violation | None = None
    failure: SubmissionFailed | None = None
    because: Property | None = None
    on: str = ""
    """the case in one line, in the words of the exercise"""
    hint: str = ""
    """a better one than the property's own, if something is known of this submission"""

    @cached_property
    def message(self) -> str:
        """What the student reads; nothing when all is well."""
        if self.violation is not None:
            return str(replace(self.violation, hint=self.hint or self.violation.hint))
        if self.failure is not None:
            rows = (("got", str(self.failure)), ("on", self.on), ("hint", self._hint))
            shown = [f"  {name:<9} {text}" for name, text in rows if text]
            return "\n".join([self.property.claim, *shown])
        if self.because is not None:
            return f"Not tried, because this did not hold: {self.because.claim}"
        return ""

    @cached_property
    def _hint(self) -> str:
        """The property's own hint is about what it computes, not about how long that takes."""
        return self.hint or (self.property.hint if self.status is Status.CRASHED else "")

    @cached_property
    def words(self) -> str:
        """The message as it may be told where the cases are kept back: no number, no input."""
        if self.violation is not None:
            return replace(self.violation, hint=self.hint or self.violation.hint).words
        if self.failure is not None:
            hint = [f"  hint      {self._hint}"] if self._hint else []
            rows = [f"  got       {self.failure.words}", *hint]
            return "\n".join([self.property.claim, *rows])
        return ""


def in_order(
    properties: Iterable[Property], judge: Callable[[Property], Verdict]
) -> Iterator[Verdict]:
    """Judge each; what requires a property that does not hold is not tried."""
    broken: set[Property] = set()
    for wanted in properties:
        because = next((required for required in wanted.requires if required in broken), None)
        if because is None:
            verdict = judge(wanted)
        else:
            verdict = Verdict(wanted, Status.NOT_TRIED, because=because)
        if verdict.status is not Status.PASSED:
            broken.add(wanted)
        yield verdict


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
    for tried, case in enumerate(cases, 1):
        try:
            wanted.judge(bench.trial(case))
        except Violation as violation:
            on = bench.contract.told(case)
            return Verdict(wanted, Status.FAILED, tried, case, violation=_bare(violation), on=on)
        except SubmissionFailed as failure:
            on = bench.contract.told(case)
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
    """A search for cases on which a property fails in the same way; none is judged twice."""

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
        """The first that fails, as the property prepares it, and no larger than one."""
        there = (case for drawn in cases for case in self._prepared(drawn))
        with self.bench.quiet():
            return next((c for c in there if c.size <= largest.size and self._fails(c)), None)

    def shrink(self, start: Case) -> None:
        """Let Hypothesis make a case smaller, as far as its budget goes."""
        # If it finds none, or what it finds is not repeatable, the case at hand will do.
        with self.bench.quiet(), contextlib.suppress(NoSuchExample, HypothesisException):
            find(smaller(start), self.fails, settings=SHRINKING)

    def fails(self, drawn: Case) -> bool:
        """Whether the property fails in the same way on this case."""
        return any(self._fails(chosen) for chosen in self._prepared(drawn))

    def _prepared(self, drawn: Case) -> tuple[Case, ...]:
        return prepared(self.bench.contract, self.wanted.prepare, [drawn])

    def _fails(self, case: Case) -> bool:
        if case not in self.tried:
            self.tried[case] = _violation(self.wanted, self.bench.fresh(case))
        found = self.tried[case]
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


SHRINKING = settings(
    max_examples=SHRINKING_CALLS,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
