"""Cases are valid by construction, and shrink to the smallest."""

from collections.abc import Callable
from dataclasses import fields
from math import prod

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument, NoSuchExample

from properties.case import Case, InputContent, MaskForm, MaskType, MemoryLayout
from properties.cases.case_tensors import make_mask, make_parameters, make_tokens
from properties.cases.small_cases import enumerate_smaller, list_starting_cases
from properties.cases.strategies import cases, smaller_cases
from tests.properties.contracts import (
    MASKED,
    MULTI_HEAD,
    PLAIN,
    SEARCH_SETTINGS,
    SMALL,
    assert_allowed,
    every_contract,
    get_contract,
)


@every_contract
@given(data=st.data())
def test_cases_are_valid_by_construction(slug: str, data: st.DataObject) -> None:
    contract = get_contract(slug)
    case = data.draw(cases(contract, max_tokens=7, max_heads=4))
    assert_allowed(case, contract)
    assert contract.sizes is not None or (case.tokens <= 7 and case.heads <= 4)


@pytest.mark.parametrize("slug", SMALL)
@given(data=st.data())
def test_every_case_has_tensors(slug: str, data: st.DataObject) -> None:
    contract = get_contract(slug)
    case = data.draw(cases(contract, dtypes=("float64", "float32", "bfloat16")))
    assert make_tokens(case, contract).shape == (case.batch, case.tokens, case.d_in)
    shapes = {n: tuple(t.shape) for n, t in make_parameters(case, contract).items()}
    assert shapes["W_q"] == (case.d_out, case.d_in)
    assert ("b_q" in shapes) is contract.has_biases(case)
    assert (make_mask(case) is None) is (case.mask_form is MaskForm.NONE)


@every_contract
@given(data=st.data())
def test_fitting_any_case_makes_it_valid_and_is_done_once(slug: str, data: st.DataObject) -> None:
    contract = get_contract(slug)
    anything = data.draw(
        st.builds(
            Case,
            batch=st.integers(1, 4),
            tokens=st.integers(1, 20),
            context_length=st.integers(1, 20),
            d_in=st.integers(1, 9),
            heads=st.integers(1, 6),
            head_dim=st.integers(1, 7),
            bias=st.booleans(),
            dropout=st.sampled_from((0.0, 0.5)),
            mask_form=st.sampled_from(MaskForm),
            seed=st.integers(0, 9),
        )
    )
    assert_allowed(contract.fit(anything), contract)


@every_contract
def test_cases_shrink_to_the_smallest_that_the_contract_allows(slug: str) -> None:
    contract = get_contract(slug)
    smallest = contract.fit(Case(tokens=1, context_length=1))
    assert find(cases(contract), lambda case: True, settings=SEARCH_SETTINGS) == smallest


def test_cases_shrink_in_every_field_that_a_fault_does_not_need() -> None:
    found = find(
        cases(MULTI_HEAD),
        lambda case: case.heads >= 2 and case.tokens >= 3 and case.bias,
        settings=SEARCH_SETTINGS,
    )
    assert found == Case(tokens=3, context_length=3, heads=2, bias=True)


def test_every_option_of_a_contract_is_drawn() -> None:
    drawn: set[tuple[str, object]] = set()

    def note(case: Case) -> bool:
        drawn.update((field.name, getattr(case, field.name)) for field in fields(case))
        return False

    for contract in (MULTI_HEAD, MASKED):
        with pytest.raises(NoSuchExample):
            find(cases(contract), note, settings=settings(SEARCH_SETTINGS, max_examples=400))
    for name, values in (
        ("batch", range(1, 4)),
        ("tokens", range(1, 13)),
        ("heads", range(1, 6)),
        ("head_dim", range(1, 7)),
        ("content", InputContent),
        ("memory", MemoryLayout),
        ("mask_form", MaskForm),
        ("mask_type", MaskType),
        ("dropout", (0.0, 0.1, 0.5)),
        ("bias", (False, True)),
    ):
        assert {(name, value) for value in values} <= drawn


@pytest.mark.parametrize(
    "impossible",
    [
        lambda: cases(MULTI_HEAD, max_tokens=0),
        lambda: cases(MULTI_HEAD, max_heads=0),
        lambda: cases(MULTI_HEAD, dtypes=()),
        lambda: cases(MULTI_HEAD, devices=()),
    ],
)
def test_impossible_contract_is_an_invalid_argument(impossible: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgument, match=r"max_tokens and max_heads >= 1, a dtype and a dev"):
        impossible()


@given(data=st.data())
def test_smaller_cases_are_nowhere_larger(data: st.DataObject) -> None:
    case = data.draw(cases(MASKED) | cases(MULTI_HEAD))
    below = data.draw(smaller_cases(case))
    for field in fields(Case):
        own, other = getattr(case, field.name), getattr(below, field.name)
        if isinstance(own, int | float) and not isinstance(own, bool):
            assert other <= own
        else:
            assert other in (own, field.default)
    assert below.size <= case.size
    assert (below.dtype, below.device, below.seed) == (case.dtype, case.device, case.seed)


@given(data=st.data())
def test_smaller_cases_are_valid_after_fitting_and_still_no_larger(data: st.DataObject) -> None:
    case = data.draw(cases(MULTI_HEAD) | cases(MASKED) | cases(PLAIN))
    for contract in (MULTI_HEAD, MASKED, PLAIN):
        own = contract.fit(case)
        below = contract.fit(data.draw(smaller_cases(own)))
        assert_allowed(below, contract)
        assert below.size <= own.size


def test_the_simplest_case_has_only_itself_below() -> None:
    simplest = Case(tokens=1, context_length=1)
    assert find(smaller_cases(simplest), lambda case: True, settings=SEARCH_SETTINGS) == simplest


@given(case=cases(MASKED) | cases(MULTI_HEAD))
def test_few_smaller_cases_are_all_of_them_or_none(case: Case) -> None:
    few = enumerate_smaller(case, 200)
    sizes = ("batch", "tokens", "context_length", "d_in", "heads", "head_dim", "sharpness")
    options = ("bias", "dropout", "content", "memory", "mask_form", "mask_type")
    changed = sum(getattr(case, name) != getattr(Case(), name) for name in options)
    count = prod(getattr(case, name) for name in sizes) * 2**changed
    assert len(few) == (count if count <= 200 else 0)
    if few:
        assert case in few and len(set(few)) == count
        assert [c.size for c in few] == sorted(c.size for c in few)


@given(case=cases(MASKED) | cases(MULTI_HEAD))
def test_shrink_steps_of_a_case_are_smaller_and_as_plain_or_like_it(case: Case) -> None:
    there = list_starting_cases(case)
    assert len(set(there)) == len(there)
    for rung in there:
        assert rung.size < case.size
        assert (rung.dtype, rung.device, rung.seed) == (case.dtype, case.device, case.seed)
        assert rung.mask_form in (MaskForm.NONE, case.mask_form)
