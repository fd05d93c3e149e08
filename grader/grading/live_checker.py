"""Check properties of a submission in a process that may end, one by one or in a search."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from grader.grading.infer import Target
from grader.grading.search import (
    DroppingChannel,
    SearchCallback,
    SearchResult,
    ignore_search,
    reduce_case,
    search,
)
from grader.grading.settings import Settings
from grader.sandbox.grader_side.session import Session
from grader.sandbox.grader_side.subject import ChannelSubject
from properties.case import Case
from properties.check import find_first_failure, shrink_failure
from properties.harness.harness import Harness
from properties.property import Property, Verdict
from properties.violation import Status, SubmissionFailed


@dataclass(frozen=True)
class LiveChecker:
    """Checks properties in a session, in a fresh process if the last one is gone."""

    session: Session
    harness: Harness

    def check(self, prop: Property, cases: Sequence[Case]) -> Verdict:
        """Check one property; again if the process was ended from outside meanwhile."""
        return self._check(prop, lambda: find_first_failure(prop, self.harness, cases))

    def shrink(self, verdict: Verdict) -> Verdict:
        """Return a failure on the smallest case, or as it was if no process can be started."""
        begun = self.harness.get_searched()
        for _ in self.session.iter_tries():
            self.harness.go_back_to(begun)
            try:
                self.revive()
            except SubmissionFailed:
                return verdict
            shrunk = shrink_failure(verdict, self.harness)
        return shrunk

    def check_generated(self, prop: Property, case: Case) -> Verdict:
        """Check one property on one generated case, which may be large.

        The case is tried without the peculiarities whose own claim did not hold on fixed cases.
        """
        verdict = self._check(prop, lambda: self._try_plain(prop, case))
        if verdict.violation is None or verdict.case is None:
            return verdict
        kind = verdict.violation.kind
        smaller = reduce_case(prop, self.harness, verdict.case, kind)
        again = self.shrink(self.check(prop, [smaller]))
        if again.violation is not None:
            return again
        # It fails only after what came before it in this process: reported as it was found.
        return verdict

    def _try_plain(self, prop: Property, case: Case) -> Verdict:
        harness = self.harness
        left = prop.replace_cases(harness.contract, [case], harness.unsupported.keys())
        found = find_first_failure(prop, harness, left)
        return found if left else Verdict(prop, Status.NOT_TRIED)

    def _check(self, prop: Property, check: Callable[[], Verdict]) -> Verdict:
        for _ in self.session.iter_tries():
            try:
                self.revive()
            except SubmissionFailed as failure:  # no time is left, or it cannot be loaded again
                verdict = Verdict(prop, failure.status, failure=failure)
            else:
                verdict = check()
        return verdict

    def revive(self) -> None:
        """Start a process if there is none. Raises SubmissionFailed."""
        if self.session.revive():
            self.harness.forget()

    def restart(self) -> None:
        """End the process, and with it all that the submission remembers."""
        self.session.close()
        self.harness.forget()


def search_further(
    live: "LiveChecker",
    target: Target,
    settings: Settings,
    verdicts: Sequence[Verdict],
    on_search: SearchCallback = ignore_search,
) -> SearchResult | None:
    """Try generated cases on what holds, in a process of their own; None unless it is asked for."""
    if settings.search is None:
        return None
    with contextlib.closing(live.session.open_search()) as session:
        channel = DroppingChannel(session)
        harness = Harness(ChannelSubject(channel), live.harness.requested_contract)
        harness.unsupported |= live.harness.unsupported
        searching = LiveChecker(session, harness)

        def finish_case() -> None:
            harness.forget()
            channel.drop_all()

        return search(
            target.exercise,
            verdicts,
            searching.check_generated,
            finish_case,
            settings.search,
            seed=settings.seed.value,
            device=settings.device,
            on_case=on_search,
        )
