"""Check properties one by one, in a submission's process, which may end at any time."""

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headcheck.grader.sandbox.grader_side.budget import BudgetExhausted
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.operations import PrintsReply
from headcheck.properties.cases.case_transforms import transform_cases
from headcheck.properties.cases.search_cases import estimate_work
from headcheck.properties.cases.small_cases import is_large, make_smaller
from headcheck.properties.check import Searched, find_first_failure, shrink_failure
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import (
    NOT_FAILED,
    Status,
    SubmissionFailed,
    Violation,
)

SLOW_FRACTION = 1 / 20
"""If a check takes a larger share of the file's time limit, the next inputs are smaller. After so
much time a large input is first tried at a smaller size, to see how long it would take."""
MUCH_LESS = 16
"""the factor by which the work of an input is reduced to see how long it would take"""
LESS = 4
"""the factor by which the estimated work of an input is reduced"""
EXPLAINED = 4
"""An answer still counts as slow if it is up to this many times quicker on smaller inputs than
their share of the work predicts, because the time of some loops grows faster than the estimated
work."""
FAR_LARGER = 8
"""A call with so many times the work of the check's case is one of a statistical check. It needs as
many sequences as it calls, so smaller inputs are of no use to it."""
TOO_LARGE = SubmissionFailed(Status.NOT_ASKED, "its calls take too long on inputs this large")


@dataclass(eq=False)
class LiveChecker:
    """Checks properties in a session, in a fresh process if the last one is gone."""

    session: Session
    harness: Harness
    most_work: int | None = None
    """the largest estimated work of an input with which this answer finishes in time"""

    def check(self, prop: Property, cases: Sequence[Case]) -> Verdict:
        """Check one property, on smaller inputs if a slow answer takes too long.

        The property is checked again if the process was ended from outside during the check.
        """
        if not cases:
            return Verdict(prop, Status.PASSED)
        tried, left = 0, self._select_cases(prop, cases)
        if (broken := self._look_ahead(prop, max(left, key=estimate_work))) is not None:
            return broken
        left = self._select_cases(prop, left)
        while left:
            verdict, used = self._check_timed(prop, left)
            if _is_statistical(verdict):
                self.session.budget.pardoned += verdict.status is Status.TIMED_OUT
                tried += verdict.cases_tried - 1
                break
            if not _is_too_slow(verdict) or not self._is_slow_on_less(prop, verdict):
                if used > SLOW_FRACTION * self.session.limits.total_s:
                    self._ask_less(max(left, key=estimate_work))
                # For one there was no time, if it began.
                began = verdict.status is Status.NOT_ASKED and verdict.case is not None
                return replace(verdict, cases_tried=tried + verdict.cases_tried - began)
            done = verdict.cases_tried - 1
            tried, left = tried + done, self._fit_to_speed(prop, left[done:])
        return Verdict(prop, Status.NOT_ASKED, tried, failure=TOO_LARGE)

    def _check_timed(self, prop: Property, cases: Sequence[Case]) -> tuple[Verdict, float]:
        """Return the verdict on one property, and the seconds that its calls used."""
        with contextlib.suppress(SubmissionFailed):  # it is tried again, and fails there
            self.revive()
        before = self.session.budget.total_s
        find = functools.partial(find_first_failure, prop, self.harness, cases)
        verdict = self.check_in_process(prop, find)
        return verdict, self.session.budget.total_s - before

    def _look_ahead(self, prop: Property, largest: Case) -> Verdict | None:
        """Ask a slow answer less if a large input would take long; return a failure on less."""
        limits, work = self.session.limits, estimate_work(largest)
        most = SLOW_FRACTION * min(limits.total_s, limits.cpu_s)
        if self.session.used_s < most or not is_large(largest):
            return None
        smaller = self._fit(prop, [largest], work // MUCH_LESS)
        if not smaller:
            return None
        verdict, used = self._check_timed(prop, smaller)
        expected = used * work / estimate_work(smaller[0])
        if expected > most:
            self.most_work = int(work * most / expected)
        return verdict if verdict.status not in NOT_FAILED else None

    def _is_slow_on_less(self, prop: Property, late: Verdict) -> bool:
        """Whether the time for smaller inputs shows that the answer is slow but not stuck.

        Two nested loops in Python take long for a thousand tokens, and a quarter of that time for
        half as many. In contrast, a loop that ends with few tokens but never with many is quick
        with few.
        """
        assert late.case is not None, "it was called"
        work, before = estimate_work(late.case), self.most_work
        self._ask_less(late.case)
        smaller = self._fit_to_speed(prop, [late.case])[:1]
        self.session.budget.pardoned += 1
        if not smaller:
            return True
        verdict, used = self._check_timed(prop, smaller)
        expected = self.session.limits.call_s * estimate_work(smaller[0]) / work
        slow = used * EXPLAINED > expected or verdict.status is Status.NOT_ASKED
        if _is_too_slow(verdict):
            slow = self._is_slow_on_less(prop, verdict)
        if not slow:
            self.session.budget.pardoned -= 1
            self.most_work = before
        return slow

    def _ask_less(self, case: Case) -> None:
        """If a case has large inputs, use only smaller inputs from now on."""
        if is_large(case):
            self.most_work = estimate_work(case) // LESS

    def _select_cases(self, prop: Property, cases: Sequence[Case]) -> Sequence[Case]:
        """Return cases that fit the speed of an answer, or else the smallest one.

        What has no smaller size, such as a comparison of initial weights, may be quick anyway.
        """
        return self._fit_to_speed(prop, cases) or sorted(cases, key=estimate_work)[:1]

    def _fit_to_speed(self, prop: Property, cases: Sequence[Case]) -> Sequence[Case]:
        """Return cases that a slow answer can compute in time: replace cases that are too large."""
        return cases if self.most_work is None else self._fit(prop, cases, self.most_work)

    def _fit(self, prop: Property, cases: Sequence[Case], work: int) -> Sequence[Case]:
        """Return cases with at most this work: replace larger ones, or leave them out."""
        contract = self.harness.contract
        smaller = [
            make_smaller(contract, case, work) if estimate_work(case) > work else case
            for case in cases
        ]
        known = dict.fromkeys(case for case in smaller if case is not None)
        fitting = transform_cases(contract, prop.transform, known)
        return [case for case in fitting if estimate_work(case) <= work]

    def shrink(self, verdict: Verdict, before: Searched) -> tuple[Verdict, Searched]:
        """Return a failure on the smallest case, or unchanged if no process can be started."""
        for _ in self.session.iter_tries():
            try:
                self.revive()
            except SubmissionFailed:
                return verdict, before
            shrunk = shrink_failure(verdict, self.harness, before)
        return shrunk

    def collect_prints(self, verdict: Verdict) -> PrintsReply:
        """Check a property once more on the case on which it failed; return what that prints.

        Raises SubmissionFailed if the process ends, or has no time left.
        """
        prop, case, harness = verdict.property, verdict.case, self.harness
        assert case is not None, "it was called"
        self.revive()
        self.session.take_prints()
        # A new module is constructed, because a constructor may print, too.
        fits = harness.contract.has(*prop.needs)
        context = (
            harness.create_context(case) if fits else harness.get_context_for(prop.needs, case)
        )
        with harness.suppress_notes(), contextlib.suppress(Violation, SubmissionFailed):
            prop.check(context)
        return self.session.take_prints()

    def check_in_process(self, prop: Property, check: Callable[[], Verdict]) -> Verdict:
        """Check one property, again if the process was ended from outside during the check."""
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
        """End the process, and with it everything that the submission has stored in memory."""
        self.session.close()
        self.harness.forget()


def _is_too_slow(verdict: Verdict) -> bool:
    """Whether the verdict is that a call with large inputs did not end in time."""
    endless = verdict.status is Status.TIMED_OUT
    used_up = isinstance(verdict.failure, BudgetExhausted)
    return endless and not used_up and verdict.case is not None and is_large(verdict.case)


def _is_statistical(verdict: Verdict) -> bool:
    """Whether a call took too long that was far larger than the case of its check."""
    late, case = verdict.failure, verdict.case
    if late is None or isinstance(late, BudgetExhausted) or late.called is None or case is None:
        return False
    in_time = late.status not in (Status.TIMED_OUT, Status.NOT_ASKED)
    return not in_time and estimate_work(late.called) > FAR_LARGER * estimate_work(case)
