"""Search for failures in a process of its own, which may end at any time."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from headcheck.grader.grading.events import Listener, ignore
from headcheck.grader.grading.infer import Target
from headcheck.grader.grading.live_checker import LiveChecker
from headcheck.grader.grading.search import (
    DroppingChannel,
    SearchResult,
    reduce_case,
    search,
)
from headcheck.grader.grading.settings import Settings
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.properties.check import CounterexampleSearch, Searched, find_first_failure
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status


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
        harness = Harness(ChannelSubject(channel), live.harness.requested_contract)
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
