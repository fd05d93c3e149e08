"""A slow answer is asked the smallest inputs of every group before all others."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.batch.smallest_first import (
    check_smallest_first,
    select_smallest,
    take_groups_in_turn,
)
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.cases.search_cases import estimate_work
from headcheck.properties.cases.small_cases import is_large
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status, SubmissionFailed

EXERCISE = BY_SLUG["causal_attention"]
PLAN = EXERCISE.plan_cases()
LATE = SubmissionFailed(Status.NOT_ASKED, "no time is left")


class Judge:
    """Says that everything holds, while there is time for so many cases."""

    def __init__(self, left: int, wrong: tuple[Property, Case] | None = None) -> None:
        self.left, self.wrong = left, wrong
        self.asked: list[tuple[Property, Case]] = []

    def check(self, prop: Property, cases: Sequence[Case]) -> Verdict:
        for done, case in enumerate(cases):
            if not self.left:
                return Verdict(prop, Status.NOT_ASKED, done, failure=LATE)
            self.left -= 1
            self.asked.append((prop, case))
            if (prop, case) == self.wrong:
                return Verdict(prop, Status.FAILED, done + 1, case)
        return Verdict(prop, Status.PASSED, len(cases))


def run(judge: Judge) -> dict[Property, Verdict]:
    harness = Harness(make_subject({}), EXERCISE.contract)
    harness.contract = EXERCISE.contract
    verdicts = list(check_smallest_first(PLAN, harness, judge.check))
    assert [v.property for v in verdicts] == list(PLAN), "in the order of the plan"
    return {v.property: v for v in verdicts}


def test_with_enough_time_every_case_is_asked_once() -> None:
    judge = Judge(10**6)
    found = run(judge)
    assert {v.status for v in found.values()} == {Status.PASSED}
    assert sorted(judge.asked, key=str) == sorted(((p, c) for p in PLAN for c in PLAN[p]), key=str)
    assert all(v.cases_tried == len(PLAN[p]) for p, v in found.items())


def test_the_smallest_inputs_come_first_and_the_large_ones_last() -> None:
    judge = Judge(10**6)
    run(judge)
    smallest = [prop for prop in PLAN if select_smallest(PLAN[prop])]
    first = judge.asked[: len(smallest)]
    assert {prop for prop, _ in first} == set(smallest)
    assert all(estimate_work(case) <= max(map(estimate_work, PLAN[prop])) for prop, case in first)
    large = [is_large(case) for _, case in judge.asked]
    assert any(large) and all(one <= other for one, other in pairwise(large))


def test_groups_take_turns() -> None:
    order = take_groups_in_turn(PLAN)
    assert set(order) == set(PLAN)
    assert len({prop.group for prop in order[:45]}) == len({prop.group for prop in PLAN})
    for prop in order:
        known = [required for required in prop.requires if required in PLAN]
        assert all(order.index(required) < order.index(prop) for required in known)


@pytest.mark.parametrize("time", [0, 1, 30, 150])
def test_what_there_is_no_time_for_is_not_asked(time: int) -> None:
    found = run(Judge(time))
    told = {v.status for v in found.values()}
    assert Status.NOT_ASKED in told and told <= {Status.PASSED, Status.NOT_ASKED}
    asked = sum(v.asked * len(PLAN[p]) for p, v in found.items())
    assert asked == pytest.approx(time), "a share for every case that was asked"


def test_a_failure_on_any_input_is_the_verdict() -> None:
    prop = next(p for p in PLAN if p.name == "it_equals_the_equation")
    found = run(Judge(10**6, wrong=(prop, PLAN[prop][-1])))
    assert found[prop].status is Status.FAILED
    blocked = [p for p in PLAN if prop in p.requires]
    assert blocked and {found[p].status for p in blocked} == {Status.NOT_TRIED}
