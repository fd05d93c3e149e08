"""Cases as a property needs them, prepared from those of the bank."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcheck.exercises import ALL
from headcheck.properties.cases.case_set import MAX_TOKENS, generate_case_set
from headcheck.properties.cases.case_transforms import (
    at_least,
    compose,
    identity,
    transform_cases,
    with_values,
)
from headcheck.properties.cases.strategies import cases
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.terms.case import Case, MaskForm
from tests.properties.contracts import MASKED, MULTI_HEAD, SLUGS, assert_allowed, get_contract


@given(data=st.data())
def test_at_least_raises_and_never_lowers(data: st.DataObject) -> None:
    case = data.draw(cases(MULTI_HEAD))
    raised = at_least(tokens=6, heads=3, batch=2)(case)
    assert raised is not None
    assert (raised.tokens, raised.heads) == (max(case.tokens, 6), max(case.heads, 3))
    assert raised.batch == max(case.batch, 2)
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
    changed = {"bias": True, "dtype": "float32"}
    assert with_values(**changed)(case) == replace(case, **changed)  # type: ignore[arg-type]


def test_combined_transforms_apply_in_order() -> None:
    case = Case(tokens=2, context_length=2)
    assert compose(with_values(heads=2), with_values(heads=3))(case) == replace(case, heads=3)
    assert compose(with_values(heads=3), at_least(heads=2))(case) == replace(case, heads=3)


def test_combined_transforms_stop_at_the_first_refusal() -> None:
    case = Case()

    def refuse(_: Case) -> Case | None:
        return None

    def unreachable(_: Case) -> Case | None:
        raise AssertionError("asked in vain")

    assert compose(refuse, unreachable)(case) is None
    assert compose(identity, refuse)(case) is None


@pytest.mark.sampled("slug", SLUGS, SLUGS[::5])
@given(data=st.data())
def test_transformed_cases_are_allowed_raised_and_distinct(slug: str, data: st.DataObject) -> None:
    contract = get_contract(slug)
    drawn = data.draw(st.lists(cases(contract, max_tokens=5), max_size=6))
    made = transform_cases(contract, at_least(tokens=4, batch=2), drawn * 2)
    assert transform_cases(contract, identity, drawn) == tuple(dict.fromkeys(drawn))
    assert len(made) == len(set(made)) <= len(drawn)
    assert bool(made) is bool(drawn)
    for case in made:
        assert_allowed(case, contract)
        assert case.tokens >= 4
        assert case.batch >= 2 or not contract.has(Capability.BATCH)


def test_transform_drops_cases_a_property_refuses() -> None:
    drawn = [Case(seed=seed) for seed in range(6)]

    def only_even(case: Case) -> Case | None:
        return None if case.seed % 2 else case

    assert [case.seed for case in transform_cases(MULTI_HEAD, only_even, drawn)] == [0, 2, 4]


def test_transform_drops_cases_the_contract_undoes() -> None:
    def masked(case: Case) -> Case | None:
        return None if case.mask_form is MaskForm.NONE else case

    case = Case(mask_form=MaskForm.QUERY_KEY, d_in=1)
    assert transform_cases(MASKED, masked, [case]) == (case,)
    assert transform_cases(MULTI_HEAD, masked, [case]) == ()


@pytest.mark.whole
@pytest.mark.sampled("seed", range(10), range(3))
def test_no_case_is_as_long_as_gpt2_is_wide(seed: int) -> None:
    for exercise in ALL:
        bank = generate_case_set(exercise.contract, 24, seed)
        assert all(case.tokens <= MAX_TOKENS for case in bank)


def test_where_a_contract_has_one_number_a_token_no_case_needs_two() -> None:
    narrow = replace(MULTI_HEAD, sizes={"d_in": 1})
    drawn = generate_case_set(narrow, 1)
    assert transform_cases(narrow, identity, drawn)
    assert transform_cases(narrow, at_least(d_in=2), drawn) == ()


def test_a_case_in_which_nothing_changes_stays_the_same_object() -> None:
    case = Case(tokens=3, context_length=5, dropout=0.5)
    assert case.change(tokens=3, dropout=0.5) is case
    assert at_least(tokens=2)(case) is case
    assert case.change(tokens=4) == replace(case, tokens=4)
