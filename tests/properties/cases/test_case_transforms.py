"""Cases as a property needs them, prepared from those of the bank."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exercises import ALL
from properties.case import Case, MaskForm
from properties.cases.case_set import LONGEST, bank
from properties.cases.case_transforms import as_drawn, at_least, both, prepared, with_values
from properties.cases.strategies import cases
from properties.contract import Trait
from tests.properties.contracts import (
    MASKED,
    MULTI_HEAD,
    contract_of,
    every_contract,
    must_be_allowed,
)


@given(data=st.data())
def test_at_least_raises_and_never_lowers(data: st.DataObject) -> None:
    case = data.draw(cases(MULTI_HEAD))
    raised = at_least(tokens=6, heads=3, batch=2)(case)
    assert raised is not None
    assert (raised.tokens, raised.heads, raised.batch) == (
        max(case.tokens, 6),
        max(case.heads, 3),
        max(case.batch, 2),
    )
    assert raised.context_length == max(case.context_length, raised.tokens)
    untouched = {"tokens", "heads", "batch", "context_length"}
    for field in fields(Case):
        if field.name not in untouched:
            assert getattr(raised, field.name) == getattr(case, field.name)


def test_at_least_without_tokens_leaves_the_context_alone() -> None:
    case = Case(tokens=2, context_length=2)
    assert at_least(head_dim=4)(case) == replace(case, head_dim=4)


def test_with_values_sets_fields() -> None:
    case = Case(tokens=2, context_length=2, seed=5)
    assert with_values(bias=True, dtype="float32")(case) == replace(
        case, bias=True, dtype="float32"
    )


def test_both_prepare_one_after_the_other() -> None:
    case = Case(tokens=2, context_length=2)
    assert both(with_values(heads=2), with_values(heads=3))(case) == replace(case, heads=3)
    assert both(with_values(heads=3), at_least(heads=2))(case) == replace(case, heads=3)


def test_both_stop_at_the_first_that_refuses() -> None:
    case = Case()

    def refuse(_: Case) -> Case | None:
        return None

    def unreachable(_: Case) -> Case | None:
        raise AssertionError("asked in vain")

    assert both(refuse, unreachable)(case) is None
    assert both(as_drawn, refuse)(case) is None


@every_contract
@given(data=st.data())
def test_prepared_cases_are_allowed_raised_and_distinct(slug: str, data: st.DataObject) -> None:
    contract = contract_of(slug)
    drawn = data.draw(st.lists(cases(contract, max_tokens=5), max_size=6))
    made = prepared(contract, at_least(tokens=4, batch=2), drawn * 2)
    assert prepared(contract, as_drawn, drawn) == tuple(dict.fromkeys(drawn))
    assert len(made) == len(set(made)) <= len(drawn)
    assert bool(made) is bool(drawn)
    for case in made:
        must_be_allowed(case, contract)
        assert case.tokens >= 4
        assert case.batch >= 2 or not contract.has(Trait.BATCH)


def test_prepared_leaves_out_what_a_property_refuses() -> None:
    drawn = [Case(seed=seed) for seed in range(6)]

    def only_even(case: Case) -> Case | None:
        return None if case.seed % 2 else case

    assert [case.seed for case in prepared(MULTI_HEAD, only_even, drawn)] == [0, 2, 4]


def test_prepared_leaves_out_what_the_contract_takes_away_again() -> None:
    def masked(case: Case) -> Case | None:
        return None if case.mask_form is MaskForm.NONE else case

    case = Case(mask_form=MaskForm.QUERY_KEY, d_in=1)
    assert prepared(MASKED, masked, [case]) == (case,)
    assert prepared(MULTI_HEAD, masked, [case]) == ()


@pytest.mark.parametrize("seed", range(10))
def test_no_case_of_a_bank_is_as_long_as_gpt2_is_wide(seed: int) -> None:
    for exercise in ALL:
        assert all(case.tokens <= LONGEST for case in bank(exercise.contract, 24, seed))
