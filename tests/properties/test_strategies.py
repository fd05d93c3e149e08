"""Cases are valid by construction, shrink to the smallest, and the bank is everybody's."""

import hashlib
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from math import prod

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument, NoSuchExample

from exercises import ALL, BY_SLUG, Exercise
from properties.case import Case, Content, MaskForm, MaskType, Memory
from properties.contract import Contract, Trait
from properties.materials import mask_of, parameters_of, tokens_of
from properties.strategies import (
    LEVELS,
    LONGEST,
    as_drawn,
    at_least,
    bank,
    both,
    cases,
    few_smaller,
    prepared,
    rungs,
    smaller,
    with_values,
)

SLUGS = sorted(BY_SLUG)
SMALL = [slug for slug in SLUGS if BY_SLUG[slug].contract.sizes is None]
MULTI_HEAD = BY_SLUG["multi_head_attention"].contract
MASKED = BY_SLUG["masked_multi_head"].contract
PLAIN = BY_SLUG["self_attention_v2"].contract
FIND = settings(
    database=None, derandomize=True, max_examples=500, phases=(Phase.generate, Phase.shrink)
)

every_contract = pytest.mark.parametrize("slug", SLUGS)


def contract_of(slug: str) -> Contract:
    return BY_SLUG[slug].contract


def must_be_allowed(case: Case, contract: Contract) -> None:
    """What the docstrings of the contract's traits promise about every case."""
    assert contract.fit(case) == case
    assert 1 <= case.tokens <= case.context_length
    assert min(case.batch, case.d_in, case.heads, case.head_dim) >= 1
    assert contract.has(Trait.BATCH) or case.batch == 1
    assert contract.has(Trait.HEADS) or case.heads == 1
    assert contract.has(Trait.BIAS_OPTION) or not case.bias
    assert contract.has(Trait.DROPOUT) or case.dropout == 0
    assert contract.has(Trait.MASK) or case.mask_form is MaskForm.NONE
    assert contract.has(Trait.CONTEXT) or case.context_length == case.tokens
    assert not contract.square or case.d_in == case.d_out
    for name, size in (contract.sizes or {}).items():
        assert getattr(case, name) == size


# ------------------------------------------------------------------------------ cases


@every_contract
@given(data=st.data())
def test_cases_are_valid_by_construction(slug: str, data: st.DataObject) -> None:
    contract = contract_of(slug)
    case = data.draw(cases(contract, max_tokens=7, max_heads=4))
    must_be_allowed(case, contract)
    assert contract.sizes is not None or (case.tokens <= 7 and case.heads <= 4)


@pytest.mark.parametrize("slug", SMALL)
@given(data=st.data())
def test_every_case_has_tensors(slug: str, data: st.DataObject) -> None:
    contract = contract_of(slug)
    case = data.draw(cases(contract, dtypes=("float64", "float32", "bfloat16")))
    assert tokens_of(case, contract).shape == (case.batch, case.tokens, case.d_in)
    shapes = {n: tuple(t.shape) for n, t in parameters_of(case, contract).items()}
    assert shapes["W_q"] == (case.d_out, case.d_in)
    assert ("b_q" in shapes) is contract.biases(case)
    assert (mask_of(case) is None) is (case.mask_form is MaskForm.NONE)


@every_contract
@given(data=st.data())
def test_fitting_any_case_makes_it_valid_and_is_done_once(slug: str, data: st.DataObject) -> None:
    contract = contract_of(slug)
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
    must_be_allowed(contract.fit(anything), contract)


@every_contract
def test_cases_shrink_to_the_smallest_that_the_contract_allows(slug: str) -> None:
    contract = contract_of(slug)
    smallest = contract.fit(Case(tokens=1, context_length=1))
    assert find(cases(contract), lambda case: True, settings=FIND) == smallest


def test_cases_shrink_in_every_field_that_a_fault_does_not_need() -> None:
    found = find(
        cases(MULTI_HEAD),
        lambda case: case.heads >= 2 and case.tokens >= 3 and case.bias,
        settings=FIND,
    )
    assert found == Case(tokens=3, context_length=3, heads=2, bias=True)


def test_everything_that_a_contract_offers_is_drawn() -> None:
    drawn: set[tuple[str, object]] = set()

    def note(case: Case) -> bool:
        drawn.update((field.name, getattr(case, field.name)) for field in fields(case))
        return False

    for contract in (MULTI_HEAD, MASKED):
        with pytest.raises(NoSuchExample):
            find(cases(contract), note, settings=settings(FIND, max_examples=400))
    for name, values in (
        ("batch", range(1, 4)),
        ("tokens", range(1, 13)),
        ("heads", range(1, 6)),
        ("head_dim", range(1, 7)),
        ("content", Content),
        ("memory", Memory),
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
def test_the_impossible_is_an_invalid_argument(impossible: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgument, match=r"max_tokens and max_heads >= 1, a dtype and a dev"):
        impossible()


@given(data=st.data())
def test_smaller_cases_are_nowhere_larger(data: st.DataObject) -> None:
    case = data.draw(cases(MASKED) | cases(MULTI_HEAD))
    below = data.draw(smaller(case))
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
        below = contract.fit(data.draw(smaller(own)))
        must_be_allowed(below, contract)
        assert below.size <= own.size


def test_the_simplest_case_has_only_itself_below() -> None:
    simplest = Case(tokens=1, context_length=1)
    assert find(smaller(simplest), lambda case: True, settings=FIND) == simplest


@given(case=cases(MASKED) | cases(MULTI_HEAD))
def test_few_smaller_cases_are_all_of_them_or_none(case: Case) -> None:
    few = few_smaller(case, 200)
    sizes = ("batch", "tokens", "context_length", "d_in", "heads", "head_dim", "sharpness")
    options = ("bias", "dropout", "content", "memory", "mask_form", "mask_type")
    changed = sum(getattr(case, name) != getattr(Case(), name) for name in options)
    count = prod(getattr(case, name) for name in sizes) * 2**changed
    assert len(few) == (count if count <= 200 else 0)
    if few:
        assert case in few and len(set(few)) == count
        assert [c.size for c in few] == sorted(c.size for c in few)


@given(case=cases(MASKED) | cases(MULTI_HEAD))
def test_the_rungs_below_a_case_are_smaller_and_as_plain_or_like_it(case: Case) -> None:
    there = rungs(case)
    assert len(set(there)) == len(there)
    for rung in there:
        assert rung.size < case.size
        assert (rung.dtype, rung.device, rung.seed) == (case.dtype, case.device, case.seed)
        assert rung.mask_form in (MaskForm.NONE, case.mask_form)


# ------------------------------------------------------------------------------- bank


def digest(banks: Iterable[Iterable[Case]]) -> str:
    text = "\n".join(repr(case) for cases_ in banks for case in cases_)
    return hashlib.sha256(text.encode()).hexdigest()


ELSEWHERE = """
import hashlib
from exercises import ALL
from properties.strategies import bank
banks = [bank(e.contract, n, s) for e in ALL for n, s in ((24, 0), (9, 3))]
text = "\\n".join(repr(case) for cases in banks for case in cases)
print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_the_bank_is_the_same_in_every_process() -> None:
    here = digest(bank(e.contract, n, s) for e in ALL for n, s in ((24, 0), (9, 3)))
    others = [
        subprocess.Popen(
            [sys.executable, "-c", ELSEWHERE],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "4242")
    ]
    assert {process.communicate()[0].strip() for process in others} == {here}


@every_contract
def test_a_bank_is_sorted_distinct_and_allowed(slug: str) -> None:
    contract = contract_of(slug)
    for count in (0, 1, 7, 24, 60):
        made = bank(contract, count)
        assert len(made) == len(set(made)) == count
        assert [case.size for case in made] == sorted(case.size for case in made)
        for case in made:
            must_be_allowed(case, contract)


def test_banks_of_other_seeds_have_other_cases() -> None:
    assert not set(bank(MULTI_HEAD, 24, 0)) & set(bank(MULTI_HEAD, 24, 1))


def test_no_two_cases_of_a_bank_have_the_same_numbers() -> None:
    seeds = [case.seed for case in bank(MULTI_HEAD, 24)]
    assert len(set(seeds)) > 20
    assert 0 not in seeds


@pytest.mark.parametrize("exercise", ALL, ids=[exercise.slug for exercise in ALL])
def test_a_bank_holds_what_finds_faults(exercise: Exercise) -> None:
    contract, free = exercise.contract, exercise.contract.sizes is None
    made = bank(contract, exercise.cases if free else 24)
    assert any(case.tokens == 1 for case in made)
    assert any(case.sharpness > 1 for case in made)
    if free or "context_length" not in (contract.sizes or {}):
        assert any(case.tokens == case.context_length > 1 for case in made)
    if contract.has(Trait.CONTEXT):
        assert any(1 < case.tokens < case.context_length for case in made)
    if contract.has(Trait.BATCH):
        assert any(case.batch == 1 for case in made)
        assert any(case.batch >= 3 for case in made)
    if contract.has(Trait.HEADS) and free:
        assert any(case.heads == 1 for case in made)
        assert any(case.heads >= 4 for case in made)
        assert any(1 < case.heads != case.head_dim > 1 for case in made)
    if free and not contract.square:
        assert any(case.d_in > case.d_out for case in made)
        assert any(case.d_in < case.d_out for case in made)
    if free:
        assert any(case.head_dim % 2 and case.head_dim > 1 for case in made)
    if contract.has(Trait.MASK):
        assert {case.mask_form for case in made} == set(MaskForm)
        assert {case.mask_type for case in made} == set(MaskType)
    if contract.has(Trait.DROPOUT):
        assert {case.dropout for case in made} == set(LEVELS["dropout"])


INDEPENDENT = tuple(name for name in LEVELS if name != "tokens")


def pairs_met(contract: Contract, made: tuple[Case, ...]) -> float:
    """The share of all pairs of levels met, among the fields that the contract leaves free."""

    def leaves_free(name: str) -> bool:
        if name == "mask_type" and not contract.has(Trait.MASK):
            return False
        alone = [contract.fit(Case(**{name: level})) for level in LEVELS[name]]
        return [getattr(case, name) for case in alone] == list(LEVELS[name])

    met = possible = 0
    names = [name for name in INDEPENDENT if leaves_free(name)]
    for one, other in itertools.combinations(names, 2):
        asked = set(itertools.product(LEVELS[one], LEVELS[other]))
        possible += len(asked)
        met += len(asked & {(getattr(case, one), getattr(case, other)) for case in made})
    return met / possible


@every_contract
def test_a_bank_meets_most_pairs_and_a_larger_one_meets_all(slug: str) -> None:
    contract = contract_of(slug)
    # Measured: 0.80 (masked_multi_head, with most fields) to 0.98.
    assert pairs_met(contract, bank(contract, 24)) > 0.75
    assert pairs_met(contract, bank(contract, 96)) == 1


def test_a_designed_bank_meets_more_pairs_than_chance() -> None:
    drawn: list[Case] = []

    def collect(case: Case) -> bool:
        drawn.append(case)
        return False

    with pytest.raises(NoSuchExample):
        find(cases(MULTI_HEAD), collect, settings=settings(FIND, max_examples=24))
    chance = pairs_met(MULTI_HEAD, tuple(drawn))
    assert len(drawn) >= 24
    assert pairs_met(MULTI_HEAD, bank(MULTI_HEAD, 24)) > chance + 0.1


# -------------------------------------------------------------------------- prepared


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
