"""Search for cases on which a property fails, with Hypothesis and under the user's settings.

Hypothesis shrinks each failing case and keeps it in the user's example database, under a separate
key for each implementation and variant. The draws depend only on the contract and on Hypothesis's
seed: see `properties.cases.strategies.draw_from`.
"""

import gc
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, Verbosity, given, reject, settings
from hypothesis.database import ExampleDatabase
from hypothesis.errors import Flaky, Unsatisfiable

from headcheck.grader.report.feedback import FeedbackLevel
from headcheck.grader.ui.pytest_plugin.messages import add_row, complete_verdict
from headcheck.grader.ui.pytest_plugin.suite import (
    PropertySuite,
    PropertyVariant,
    VariantOutcome,
    no_case_is_refused,
)
from headcheck.properties.cases.case_transforms import transform_cases
from headcheck.properties.cases.strategies import cases
from headcheck.properties.check import find_first_failure
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

FULL_LIMIT = 24
"""A property checked on at least this many cases of the bank gets all examples of the profile."""
COSTLY_LIMIT = 4
"""A property checked on fewer bank cases is costly: its search uses only the usual sizes."""
REFUSAL_SHARE = 3.0
SHRINK_SECONDS = 20.0
"""After this time the smallest failing case so far is reported."""
LARGEST_SIZES = {
    "max_tokens": 260,
    "max_heads": 16,
    "max_head_dim": 128,
    "max_batch": 65,
    "max_d_in": 128,
}
NOT_DETERMINISTIC = "It is not deterministic: a case on which this failed passed the next time."


class CaseFailed(Exception):
    """A property does not hold on a case; the message is complete."""


def finish_search(suite: PropertySuite, search: Callable[[], None]) -> VariantOutcome:
    """Run a search that `make_search` made, and return its outcome. Raises internal errors only."""
    gc.freeze()  # what is there already need not be looked through
    try:
        search()
    except CaseFailed as found:
        return VariantOutcome(failure=str(found))
    except Flaky as flaky:
        return VariantOutcome(failure=describe_flaky(flaky))
    except Unsatisfiable:
        return VariantOutcome(skipped="no case of the kind that this needs was accepted")
    finally:
        suite.forget_searched()
        gc.collect()  # what was raised holds tensors in cycles
        gc.unfreeze()
    return VariantOutcome()


@dataclass
class TriedCases:
    """The cases that one search has tried; cases that passed are not tried again."""

    passed: set[Case] = field(default_factory=set)
    """cases to skip: if a property fixes all sizes, many draws produce the same case"""
    failed: set[Case] = field(default_factory=set)
    shrink_until: float = math.inf

    def is_known(self, case: Case) -> bool:
        """Whether a case has passed and can be skipped. Ends a shrink that takes too long."""
        if case not in self.failed and time.process_time() > self.shrink_until:
            reject()
        return case in self.passed


def make_search(suite: PropertySuite, variant: PropertyVariant) -> Callable[[], None]:
    """Return the test that Hypothesis runs; it raises CaseFailed with the smallest case found."""
    tried = TriedCases()

    def search(case: Case) -> None:
        if tried.is_known(case):
            return
        try:
            try_case(suite, variant, case)
        except CaseFailed:
            if not tried.failed:
                tried.shrink_until = time.process_time() + SHRINK_SECONDS
            tried.failed.add(case)
            raise
        tried.passed.add(case)

    largest: dict[str, Any] = LARGEST_SIZES if variant.prop.limit >= COSTLY_LIMIT else {}
    strategy: SearchStrategy[Case] = cases(
        suite.contract,
        transform=variant.prop.transform,
        dtypes=(variant.dtype,),
        devices=(variant.device,),
        **largest,
    )
    key = f"{suite.title} {variant.name}"
    tells_cases = suite.feedback.get_level(variant.prop.name).includes(FeedbackLevel.CASE)
    chosen = make_settings(variant.prop, key, tells_cases=tells_cases)
    return chosen(given(case=strategy)(search))


def make_settings(prop: Property, key: str, *, tells_cases: bool = True) -> settings:
    """Return the user's settings, changed where a search cannot follow them.

    The search for refusals uses more examples, and the same ones in every process, because other
    properties skip refused cases if this search reports any.
    """
    profile = settings()
    share = min(1.0, prop.limit / FULL_LIMIT)
    kept: dict[str, Any] = {}
    if profile.database is not None:
        kept = {"database": KeptExamples(profile.database, key)}
    if prop is no_case_is_refused:
        share, kept = REFUSAL_SHARE, {"database": None, "derandomize": True}
    quiet = profile.verbosity is Verbosity.normal or not tells_cases
    return settings(
        max_examples=max(1, math.ceil(profile.max_examples * share)),
        deadline=None,
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
        phases=[phase for phase in profile.phases if phase is not Phase.explain],
        # The message has the case already, in the words of this project.
        verbosity=Verbosity.quiet if quiet else profile.verbosity,
        **kept,
    )


def try_case(suite: PropertySuite, variant: PropertyVariant, case: Case) -> None:
    """Raise CaseFailed if the property, or a property that it requires, does not hold on a case."""
    harness = suite.search_harness
    try:
        verdict = find_first_failure(variant.prop, harness, [case])
        if verdict.status is Status.PASSED:
            return
        if verdict.unsupported or _is_reported(suite, variant, case):
            reject()
        cause = find_cause(suite, variant, verdict)
    finally:
        suite.forget_searched()
    message = suite.describe_verdict(complete_verdict(cause, suite.contract))
    if cause.property is not variant.prop:
        message = add_row(message, "searched", f"for a case without: {variant.prop.claim}")
    raise CaseFailed(message)


def _is_reported(suite: PropertySuite, variant: PropertyVariant, case: Case) -> bool:
    """Whether a case is refused, and `no_case_is_refused` reports that some are."""
    if variant.prop is no_case_is_refused or not suite.is_left_out(case):
        return False
    refusal = suite.find_refusal(case)
    if refusal is not None and refusal.status is Status.NOT_TRIED:
        return True
    return suite.reports_refusals(variant.device, variant.dtype)


def find_cause(suite: PropertySuite, variant: PropertyVariant, verdict: Verdict) -> Verdict:
    """Return the verdict of the first required property that fails on the same case, or its own.

    The required properties all held on the bank. So the failure is reported under its cause, and no
    failure that the search finds is lost.
    """
    assert verdict.case is not None, "a property that fails does so on a case"
    if verdict.failure is not None and suite.find_refusal(verdict.case) is not None:
        return find_first_failure(no_case_is_refused, suite.search_harness, [verdict.case])
    for required in dict.fromkeys(_list_required(variant.prop)):
        if required.applies_to(suite.contract) and variant.dtype in required.dtypes:
            on = transform_cases(suite.contract, required.transform, [verdict.case])
            other = find_first_failure(required, suite.search_harness, on)
            if other.status is not Status.PASSED and not other.unsupported:
                return other
    return verdict


def _list_required(prop: Property) -> Iterable[Property]:
    for required in prop.requires:
        yield from _list_required(required)
        yield required


def describe_flaky(flaky: Flaky) -> str:
    """Return the message for a failure that did not happen again, including that failure."""
    # Hypothesis groups what it saw; the first is what it saw first.
    group = flaky.exceptions if isinstance(flaky, BaseExceptionGroup) else ()
    seen = [str(each) for each in group if isinstance(each, CaseFailed)]
    return "\n".join([NOT_DETERMINISTIC, *seen[:1]])


class KeptExamples(ExampleDatabase):
    """A part of the user's example database, from which no failing example is deleted.

    Hypothesis deletes an example that passes. Here the code under test changes while the search
    stays, and an example that failed once is tried again on every version.
    """

    def __init__(self, database: ExampleDatabase, name: str) -> None:
        super().__init__()
        self.database = database
        self.prefix = b"headcheck " + name.encode() + b" "

    def save(self, key: bytes, value: bytes) -> None:
        self.database.save(self.prefix + key, value)

    def fetch(self, key: bytes) -> Iterable[bytes]:
        return self.database.fetch(self.prefix + key)

    def move(self, src: bytes, dest: bytes, value: bytes) -> None:
        self.database.move(self.prefix + src, self.prefix + dest, value)

    def delete(self, key: bytes, value: bytes) -> None:
        if key.endswith((b".secondary", b".pareto")):  # larger examples of the same failures
            self.database.delete(self.prefix + key, value)
