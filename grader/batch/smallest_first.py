"""Ask a slow answer the smallest inputs of every group before all others.

There may be no time for everything. So each property is first asked on its smallest input, a
property of each group in turn, then on other small inputs, and last on large ones. What was not
asked earns nothing, so an answer wins nothing by using up its time before its mistakes would show.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from headcheck.grader.grouped import group_by
from headcheck.properties.cases.search_cases import estimate_work
from headcheck.properties.cases.small_cases import is_large
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import CheckOnCases, Property, Verdict, check_in_order
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.peculiarity import select_plainest
from headcheck.properties.violations.violation import Status

Plan = Mapping[Property, Sequence[Case]]


def check_smallest_first(plan: Plan, harness: Harness, check: CheckOnCases) -> Iterator[Verdict]:
    """Yield a verdict on every property, in the order of the plan, once all have been asked."""
    order = take_groups_in_turn(plan)
    before = dict.fromkeys(order, cast(Sequence[Case], ()))
    found = dict[Property, Verdict]()

    def check_more(prop: Property, cases: Sequence[Case]) -> Verdict:
        known = found.get(prop)
        if known is not None and known.status is not Status.PASSED:
            return known
        more = [case for case in cases if case not in before[prop]]
        verdict = check(prop, more) if more else Verdict(prop, Status.PASSED)
        return replace(verdict, cases_tried=len(cases) - len(more) + verdict.cases_tried)

    for select in (select_smallest, select_small, tuple):
        portion = {prop: select(plan[prop]) for prop in order}
        found = {v.property: v for v in check_in_order(portion, harness, check_more)}
        before = portion
    yield from (found[prop] for prop in plan)


def select_smallest(cases: Sequence[Case]) -> Sequence[Case]:
    """Return the smallest of the plainest small cases; none if there are no small ones."""
    return tuple(sorted(select_plainest(select_small(cases)), key=estimate_work)[:1])


def select_small(cases: Sequence[Case]) -> Sequence[Case]:
    """Return the cases on which even a slow answer takes a fraction of a second."""
    return tuple(case for case in cases if not is_large(case))


def take_groups_in_turn(properties: Iterable[Property]) -> list[Property]:
    """Return the properties, one of each group after the other, but after those they require.

    Properties about peculiarities come first, since they decide on which cases others are asked.
    """
    known = dict.fromkeys(properties)
    rows = itertools.zip_longest(*group_by(known, lambda prop: prop.group).values())
    in_turn = (prop for row in rows for prop in row if prop is not None)
    order = dict[Property, None]()
    for prop in (*(each for each in known if each.about is not None), *in_turn):
        _add_after_required(prop, order)
    return [prop for prop in order if prop in known]


def _add_after_required(prop: Property, order: dict[Property, None]) -> None:
    for required in prop.requires:
        _add_after_required(required, order)
    order.setdefault(prop)
