"""Judging stops at the first violation, and hides no fault; properties have claims and cases."""

from dataclasses import fields, replace
from typing import Any

import pytest

from headcheck.properties.cases.case_transforms import with_values
from headcheck.properties.check import (
    MAX_SEARCHED,
    Searched,
    check_property,
    find_first_failure,
    shrink_failure,
)
from headcheck.properties.contracts.case_description import describe_case
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import Property, PropertyFamily, PropertyGroup
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status, SubmissionFailed
from tests.properties.planted import BANK, CONTRACT, SMALLEST, Fault, claim, nobody, wrong_where

# ------------------------------------------------------------------------------- check


def test_a_property_that_holds_is_tried_on_every_case() -> None:
    seen: list[Case] = []
    verdict = check_property(claim(lambda context: seen.append(context.case)), nobody(), BANK)
    assert (verdict.status, verdict.cases_tried, verdict.case) == (Status.PASSED, 24, None)
    assert tuple(seen) == BANK
    assert verdict.message == ""


def test_checking_stops_at_the_first_violation() -> None:
    seen: list[Case] = []

    def judge(context: LiveContext) -> None:
        seen.append(context.case)
        wrong_where(lambda case: case == BANK[6])(context)

    verdict = check_property(claim(judge), nobody(), BANK)
    assert (verdict.status, verdict.cases_tried) == (Status.FAILED, 7)
    assert tuple(seen[:7]) == BANK[:7]
    assert not set(BANK[7:]) & set(seen)


def test_violation_states_claim_case_and_hint() -> None:
    verdict = check_property(claim(wrong_where(lambda case: case.tokens >= 2)), nobody(), BANK)
    assert verdict.case is not None and verdict.violation is not None
    assert verdict.message == (
        "Fails: It is right.\n"
        "  expected  right\n"
        "  got       wrong for 2 tokens\n"
        f"  on        {describe_case(nobody().contract, verdict.case)}\n"
        "  hint      look again"
    )


def test_a_crash_is_reported_as_it_came_and_on_the_case_at_hand() -> None:
    seen: list[Case] = []

    def judge(context: LiveContext) -> None:
        seen.append(context.case)
        if context.case == BANK[4]:
            raise SubmissionFailed(Status.CRASHED, "it asked for too much", cell=3)

    verdict = check_property(claim(judge), nobody(), BANK)
    assert (verdict.status, verdict.cases_tried, verdict.case) == (Status.CRASHED, 5, BANK[4])
    assert tuple(seen) == BANK[:5]
    assert verdict.violation is None
    assert verdict.message == (
        "Crashed in this check: It is right.\n"
        "  got       it asked for too much (cell 3)\n"
        f"  on        {describe_case(nobody().contract, BANK[4])}"
    )


def test_a_search_that_is_made_again_finds_the_same() -> None:
    harness = nobody()
    failed = find_first_failure(claim(wrong_where(lambda case: case.tokens >= 2)), harness, BANK)
    found, searched = shrink_failure(failed, harness, Searched())
    assert searched.counterexamples and searched.left < MAX_SEARCHED
    again, as_much = shrink_failure(failed, harness, Searched())
    assert (again.case, again.message, as_much) == (found.case, found.message, searched)


@pytest.mark.parametrize("group", PropertyGroup)
def test_a_crash_has_no_hint_of_the_claim_that_was_asked(group: PropertyGroup) -> None:
    def judge(context: LiveContext) -> None:
        raise SubmissionFailed(Status.CRASHED, "it asked for too much")

    verdict = check_property(claim(judge, group=group), nobody(), BANK)
    assert "look again" not in verdict.message + verdict.redacted_message


@pytest.mark.parametrize("fault", [AssertionError("ours"), KeyError("ours"), RuntimeError("ours")])
def test_internal_error_is_never_a_verdict(fault: Exception) -> None:
    def judge(context: LiveContext) -> None:
        raise fault

    with pytest.raises(type(fault), match="ours"):
        check_property(claim(judge), nobody(), BANK)


@pytest.mark.parametrize("broken", [lambda c: c.heads == 1, lambda c: c.d_in < 3, lambda c: True])
def test_internal_error_during_the_search_is_no_verdict(broken: Fault) -> None:
    first = next(case for case in BANK if case.tokens >= 3 and case.heads >= 2 and case.d_in >= 3)

    def judge(context: LiveContext) -> None:
        if context.case != first and broken(context.case):
            raise AssertionError("ours")
        wrong_where(lambda case: case.tokens >= 2)(context)

    with pytest.raises(AssertionError, match="ours"):
        check_property(claim(judge), nobody(), [first])


def test_empty_case_set_passes_without_a_call() -> None:
    verdict = check_property(claim(wrong_where(lambda case: True)), nobody(), ())
    assert (verdict.status, verdict.cases_tried) == (Status.PASSED, 0)


# ------------------------------------------------------------------- claims, and choosing


def first_judge(context: CaseContext) -> None:
    """It has a first line.

    And others, which the student does not read.
    """


def test_claim_is_the_first_line_of_the_check_docstring() -> None:
    before = claim(first_judge, name="before")
    also = claim(first_judge, name="also")
    claims = PropertyFamily(PropertyGroup.MASK, (before,))
    more: dict[str, Any] = {"limit": 3, "hint": "a hint", "dtypes": ("float32",)}
    needed = Capability.CAUSAL, Capability.TOKENS
    made = claims(*needed, after=(also,), **more)(first_judge)
    wanted = Property(
        name="first_judge",
        claim="It has a first line.",
        group=PropertyGroup.MASK,
        check=first_judge,
        recordable_check=first_judge,
        needs=frozenset(needed),
        requires=(before, also),
        **more,
    )
    for field in fields(made):
        assert getattr(made, field.name) == getattr(wanted, field.name), field.name


def test_check_without_a_docstring_has_no_claim() -> None:
    def check(context: CaseContext) -> None:
        pass

    made = PropertyFamily(PropertyGroup.VALUES)()(check)
    assert (made.claim, made.requires, made.needs) == ("", (), frozenset())


def test_check_of_a_live_context_cannot_be_recorded() -> None:
    def check(context: LiveContext) -> None:
        context.adapter.set(context.parameters)

    assert PropertyFamily(PropertyGroup.VALUES)()(check).recordable_check is None


def test_check_must_say_which_context_it_takes() -> None:
    with pytest.raises(TypeError, match="annotate `context` as CaseContext or as LiveContext"):
        PropertyFamily(PropertyGroup.VALUES)()(lambda context: None)


def test_a_property_applies_where_all_it_needs_is_there() -> None:
    asked = claim(first_judge, needs=frozenset({Capability.BATCH, Capability.HEADS}))
    assert asked.applies_to(CONTRACT)
    assert not asked.applies_to(replace(CONTRACT, capabilities=frozenset({Capability.BATCH})))
    assert claim(first_judge).applies_to(replace(CONTRACT, capabilities=frozenset()))


@pytest.mark.parametrize(("limit", "count"), [(24, 24), (30, 24), (12, 12), (8, 8), (1, 1)])
def test_an_expensive_property_is_tried_on_cases_from_small_to_large(
    limit: int, count: int
) -> None:
    chosen = claim(first_judge, limit=limit).select_cases(CONTRACT, BANK)
    assert len(chosen) == count
    assert chosen[-1] == BANK[-1]
    assert chosen == tuple(case for case in BANK if case in chosen)


def test_never_more_cases_are_chosen_than_the_limit() -> None:
    for limit in range(1, 30):
        for count in (0, 1, 5, 23, 24):
            chosen = claim(first_judge, limit=limit).select_cases(CONTRACT, BANK[:count])
            assert len(chosen) <= min(limit, count)
            assert bool(chosen) is bool(count)


def test_cases_that_become_equal_are_checked_once() -> None:
    asked = claim(first_judge, transform=with_values(**dict(vars_of(SMALLEST))))
    assert asked.select_cases(CONTRACT, BANK) == (SMALLEST,)


def vars_of(case: Case) -> list[tuple[str, object]]:
    return [(name, getattr(case, name)) for name in Case.__slots__]
