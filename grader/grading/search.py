"""Search for failures on generated cases, after the fixed ones have been judged.

A property that holds on the case set may still fail at another size. A search tries generated cases
(`properties/cases/search_cases.py`) on the properties that passed, and tries each property until
its first failure. Every submission gets the same cases in the same order. All properties that use a
case unchanged share it, so that its module, tensors and answers are computed only once. The most
telling and cheapest properties come first: values are tried on every case and on some small cases
in addition, gradients on all but the costliest cases, each other recordable property on one case in
eight, and each live property on one case in sixteen. One case in forty is tried on every property,
transformed as the property needs (`is_plain`); one case in ten gives the seed for a history of
calls, other modules, training and copies. After a property fails, the properties that depend on it
are not searched further and keep their verdicts from the fixed cases.

A search finds wrong answers and exceptions. A call that takes too long or too much memory does not
count: the search chose the sizes, and a right answer may be slow. Such a call ends the search, and
the report says so. For the same reason a search has its own process and its own budget within the
same limits, so that it cannot affect the verdicts on the fixed cases.
"""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headcheck.exercises import Exercise
from headcheck.grader.grading.attempts import has_side_effects
from headcheck.grader.grading.events import Listener, SearchAdvanced, ignore
from headcheck.grader.grading.infer import Target
from headcheck.grader.grading.live_checker import LiveChecker
from headcheck.grader.grading.search_limit import SearchLimit
from headcheck.grader.grading.settings import Settings
from headcheck.grader.sandbox.grader_side.budget import BudgetExhausted
from headcheck.grader.sandbox.grader_side.subject import Channel, ChannelSubject
from headcheck.grader.sandbox.operations import DROP, NamedTensors
from headcheck.grader.sandbox.wire import Message
from headcheck.properties.cases.case_transforms import transform_cases
from headcheck.properties.cases.search_cases import (
    MAX_WORK,
    draw_companions,
    estimate_work,
    generate_search_cases,
    is_long,
    is_plain,
)
from headcheck.properties.check import CounterexampleSearch, Searched, find_first_failure
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.families.gradients import (
    the_gradient_of_the_input_is_right,
    the_gradients_of_the_weights_are_right,
)
from headcheck.properties.families.history import no_order_of_events_matters
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import (
    NOT_FAILED,
    STATUS_MESSAGES,
    Status,
    SubmissionFailed,
)

FIRST = (
    it_equals_the_equation,
    the_gradient_of_the_input_is_right,
    the_gradients_of_the_weights_are_right,
)
"""the properties that are tried first: values on every case, gradients on all cases whose estimated
work is at most `LIGHT_WORK` and on a third of the others"""
LIGHT_WORK = MAX_WORK // 4
RECORDABLE_EVERY, LIVE_EVERY = 8, 16
"""other recordable properties are tried on one case in 8, and live properties on one in 16"""
HISTORY_EVERY = 10
"""one case in this many gives the seed for a history"""
MODEST_TOKENS = 72
"""the longest sequence on which these properties are tried, since some of their checks make a call
for every token"""
SIDE_EFFECTS = "its calls have side effects, so answers depend on earlier calls"
USED_UP = "its limits were used up"
REDUCED_SIZES = ("batch", "heads", "head_dim", "d_in", "tokens", "context_length")
REDUCED_OPTIONS = ("mask_form", "mask_type", "content", "memory", "bias", "dropout", "sharpness")


@dataclass(frozen=True)
class SearchResult:
    """The outcome of a search."""

    cases: int = 0
    """the number of generated cases that were tried"""
    found: Mapping[Property, Verdict] = field(default_factory=dict)
    """the failures, by property"""
    stopped: str = ""
    """why the search ended before its limit; empty otherwise"""


def search(
    exercise: Exercise,
    verdicts: Sequence[Verdict],
    check: Callable[[Property, Case], Verdict],
    finish_case: Callable[[], None],
    limit: SearchLimit,
    *,
    seed: int = 0,
    device: str = "cpu",
    emit: Listener = ignore,
) -> SearchResult:
    """Try generated cases on the properties that passed, and return the failures.

    `check` returns the verdict on a property for one case; `finish_case` is called when all checks
    of a case are done.
    """
    if any(map(has_side_effects, verdicts)):
        return SearchResult(stopped=SIDE_EFFECTS)
    left = sort_properties(v.property for v in verdicts if v.status is Status.PASSED)
    found: dict[Property, Verdict] = {}
    tried = 0
    stream = generate_search_cases(exercise.contract, seed, exercise.slug, device)
    for case in limit_cases(stream, limit, emit):
        companions = draw_companions(exercise.contract, seed, exercise.slug, tried, device)
        checks = list_checks(exercise.contract, left, tried, case)
        beside = ((it_equals_the_equation, small) for small in companions)
        for prop, fitted in itertools.chain(checks, beside):
            if prop not in left:
                continue  # it rests on one that has just failed
            verdict = check(prop, fitted)
            used_up = isinstance(verdict.failure, BudgetExhausted)
            if stopped := USED_UP if used_up else STATUS_MESSAGES.get(verdict.status, ""):
                return SearchResult(tried, found, stopped)
            if verdict.status not in NOT_FAILED:
                found[prop] = verdict
                left = remove_dependents(left, prop)
        finish_case()
        tried += 1
        if not left:
            break
    return SearchResult(tried, found)


def limit_cases(
    cases: Iterable[Case], limit: SearchLimit, emit: Listener = ignore
) -> Iterator[Case]:
    """Yield as many cases as the limit allows; before each, say which part of it is used."""
    began = time.monotonic()
    for number, case in enumerate(itertools.islice(cases, limit.cases)):
        if limit.seconds is None:
            emit(SearchAdvanced(number, limit.cases or 0))
        elif (elapsed := time.monotonic() - began) < limit.seconds:
            emit(SearchAdvanced(elapsed, limit.seconds))
        else:
            return
        yield case


def sort_properties(properties: Iterable[Property]) -> tuple[Property, ...]:
    """Sort properties: values and gradients, then recordable ones, then the others."""

    def rank(prop: Property) -> int:
        return FIRST.index(prop) if prop in FIRST else len(FIRST) + (prop.recordable_check is None)

    return tuple(sorted(properties, key=rank))


def list_checks(
    contract: Contract, properties: Sequence[Property], number: int, case: Case
) -> Iterator[tuple[Property, Case]]:
    """Yield the properties to try on the case with this number, each with its version of the case.

    Usually this version is the unchanged case, so that the properties share modules and answers.
    Only plain cases, and cases that give a history, are transformed.
    """
    gives_history = number % HISTORY_EVERY == HISTORY_EVERY - 1
    for place, prop in enumerate(properties):
        is_history = gives_history and prop is no_order_of_events_matters
        if not (is_plain(number) or is_history or _is_due(prop, place, number, case)):
            continue
        for fitted in transform_cases(contract, prop.transform, [case]):
            is_meant = {case.dtype, fitted.dtype} & set(prop.dtypes)
            if is_history or (is_meant and (fitted == case or is_plain(number))):
                yield prop, fitted


def _is_due(prop: Property, place: int, number: int, case: Case) -> bool:
    if prop is it_equals_the_equation:
        return True
    if prop in FIRST:
        return not is_long(case) and (estimate_work(case) <= LIGHT_WORK or number % 3 == 0)
    every = LIVE_EVERY if prop.recordable_check is None else RECORDABLE_EVERY
    modest = case.tokens <= MODEST_TOKENS and estimate_work(case) <= LIGHT_WORK
    return modest and (number + place) % every == 0


def remove_dependents(properties: Sequence[Property], broken: Property) -> tuple[Property, ...]:
    """Return the properties without the broken one and those that depend on it."""
    gone = {broken}
    while more := {p for p in properties if p not in gone and gone.intersection(p.requires)}:
        gone |= more
    return tuple(p for p in properties if p not in gone)


def reduce_case(smaller: CounterexampleSearch, case: Case) -> Case:
    """Return a smaller case on which a property fails in the same way, reduced field by field.

    The method of `properties.check` does not help here: generated cases are so large that a random
    smaller case rarely fails. Instead, a binary search finds where each size begins to fail.
    """
    contract = smaller.harness.contract

    def fails(changed: Case) -> bool:
        return smaller.fails_untransformed(contract.fit(changed))

    before = None
    while before != case:
        before = case
        for name in REDUCED_OPTIONS:
            plain = replace(case, **{name: getattr(Case(), name)})
            case = plain if plain != case and fails(plain) else case
        for name in REDUCED_SIZES:
            case = _reduce_size(case, name, fails)
    return contract.fit(case)


def _reduce_size(case: Case, name: str, fails: Callable[[Case], bool]) -> Case:
    """Return the case with the smallest failing size that a binary search finds."""
    holds, broken = 0, getattr(case, name)
    size = 1
    while size < broken:
        changed = _set_size(case, name, size)
        if fails(changed):
            case, broken = changed, size
        else:
            holds = size
        size = (holds + broken + 1) // 2 if holds + 1 < broken else broken
    return case


def _set_size(case: Case, name: str, size: int) -> Case:
    """Return a case with another size; if its context had free places, one place stays free."""
    if name == "tokens":
        spare = case.context_length - case.tokens
        return replace(case, tokens=size, context_length=size + min(spare, 1))
    if name == "context_length":
        size = max(size, case.tokens)
    return replace(case, **{name: size})  # type: ignore[arg-type]  # a size


def search_further(
    live: LiveChecker,
    target: Target,
    settings: Settings,
    verdicts: Sequence[Verdict],
    emit: Listener = ignore,
) -> SearchResult | None:
    """Try generated cases on passed properties, in a separate process; None unless requested."""
    if settings.search is None:
        return None
    with contextlib.closing(live.session.open_search()) as session:
        channel = DroppingChannel(session)
        harness = Harness(ChannelSubject(channel), live.harness.requested_contract, live.session)
        harness.unsupported |= live.harness.unsupported

        def finish_case() -> None:
            harness.forget()
            channel.drop_all()

        return search(
            target.exercise,
            verdicts,
            GeneratedCaseChecker(LiveChecker(session, harness)).check,
            finish_case,
            settings.search,
            seed=settings.seed.value,
            device=settings.device,
            emit=emit,
        )


@dataclass(eq=False)
class GeneratedCaseChecker:
    """Checks properties on generated cases, which may be large, and reduces those that fail."""

    live: LiveChecker
    searched: Searched = field(default_factory=Searched)

    def check(self, prop: Property, case: Case) -> Verdict:
        """Check one property on one generated case.

        The peculiarities that the answer is known not to support are removed from the case first.
        """
        verdict = self.live.check_in_process(prop, lambda: self._try_plain(prop, case))
        if verdict.violation is None or verdict.case is None:
            return verdict
        again = self._shrink(verdict, verdict.case)
        # If it fails only after what came before it in this process, it is reported as found.
        return verdict if again.violation is None else again

    def _try_plain(self, prop: Property, case: Case) -> Verdict:
        harness = self.live.harness
        left = prop.replace_cases(harness.contract, [case], harness.unsupported.keys())
        found = find_first_failure(prop, harness, left)
        return found if left else Verdict(prop, Status.NOT_TRIED)

    def _shrink(self, verdict: Verdict, case: Case) -> Verdict:
        """Check a property again on a case that was reduced as far as it still fails."""
        assert verdict.violation is not None, "it failed"
        prop, kind, harness = verdict.property, verdict.violation.kind, self.live.harness
        without = frozenset(harness.unsupported)
        smaller = CounterexampleSearch(prop, harness, kind, self.searched.left, without)
        again = self.live.check(prop, [reduce_case(smaller, case)])
        before = Searched(self.searched.counterexamples, smaller.left)
        again, self.searched = self.live.shrink(again, before)
        return again


@dataclass(eq=False)
class DroppingChannel:
    """A channel that drops the thousands of objects of a search, case by case."""

    channel: Channel
    handles: list[Any] = field(default_factory=list)

    def request(self, op: str, meta: Mapping[str, Any], tensors: NamedTensors = ()) -> Message:
        """Send a request; remember the object that it creates, if any."""
        reply = self.channel.request(op, meta, tensors)
        if "handle" in reply.meta:
            self.handles.append(reply.meta["handle"])
        return reply

    def drop_all(self) -> None:
        """Drop the objects, unless they are gone with their process."""
        handles, self.handles = self.handles, []
        if handles:
            with contextlib.suppress(SubmissionFailed):
                self.channel.request(DROP.name, {"handles": handles})
