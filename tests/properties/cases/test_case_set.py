"""The bank of cases is everybody's, and holds what finds faults."""

import hashlib
import itertools
import os
import subprocess
import sys
from collections.abc import Iterable

import pytest
from hypothesis import find, settings
from hypothesis.errors import NoSuchExample

from headcheck.exercises import ALL, Exercise
from headcheck.properties.cases.case_set import LEVELS, generate_case_set
from headcheck.properties.cases.strategies import cases
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.terms.case import Case, MaskForm, MaskType
from tests.properties.contracts import (
    MULTI_HEAD,
    SEARCH_SETTINGS,
    assert_allowed,
    every_contract,
    get_contract,
)


def digest(banks: Iterable[Iterable[Case]]) -> str:
    text = "\n".join(repr(case) for cases_ in banks for case in cases_)
    return hashlib.sha256(text.encode()).hexdigest()


ELSEWHERE = """
import hashlib
from headcheck.exercises import ALL
from headcheck.properties.cases.case_set import generate_case_set
banks = [generate_case_set(e.contract, n, s) for e in ALL for n, s in ((24, 0), (9, 3))]
text = "\\n".join(repr(case) for cases in banks for case in cases)
print(hashlib.sha256(text.encode()).hexdigest())
"""


@pytest.mark.whole
def test_case_set_is_the_same_in_every_process() -> None:
    here = digest(generate_case_set(e.contract, n, s) for e in ALL for n, s in ((24, 0), (9, 3)))
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
def test_case_set_is_sorted_distinct_and_allowed(slug: str) -> None:
    contract = get_contract(slug)
    for count in (0, 1, 7, 24, 60):
        made = generate_case_set(contract, count)
        assert len(made) == len(set(made)) == count
        assert [case.size for case in made] == sorted(case.size for case in made)
        for case in made:
            assert_allowed(case, contract)


def test_case_sets_of_other_seeds_have_other_cases() -> None:
    assert not set(generate_case_set(MULTI_HEAD, 24, 0)) & set(generate_case_set(MULTI_HEAD, 24, 1))


def test_no_two_cases_of_a_set_have_the_same_numbers() -> None:
    seeds = [case.seed for case in generate_case_set(MULTI_HEAD, 24)]
    assert len(set(seeds)) > 20
    assert 0 not in seeds


@pytest.mark.parametrize("exercise", ALL, ids=[exercise.slug for exercise in ALL])
def test_case_set_contains_fault_finding_cases(exercise: Exercise) -> None:
    contract, free = exercise.contract, exercise.contract.sizes is None
    made = generate_case_set(contract, exercise.cases if free else 24)
    assert any(case.tokens == 1 for case in made)
    assert any(case.sharpness > 1 for case in made)
    if free or "context_length" not in (contract.sizes or {}):
        assert any(case.tokens == case.context_length > 1 for case in made)
    if contract.has(Capability.CONTEXT):
        assert any(1 < case.tokens < case.context_length for case in made)
    if contract.has(Capability.BATCH):
        assert any(case.batch == 1 for case in made)
        assert any(case.batch >= 3 for case in made)
    if contract.has(Capability.HEADS) and free:
        assert any(case.heads == 1 for case in made)
        assert any(case.heads >= 4 for case in made)
        assert any(1 < case.heads != case.head_dim > 1 for case in made)
    if free and not contract.square:
        assert any(case.d_in > case.d_out for case in made)
        assert any(case.d_in < case.d_out for case in made)
    rules = contract.size_rules
    if free and (rules is None or rules.get_test("head_dim")(3)):
        assert any(case.head_dim % 2 and case.head_dim > 1 for case in made)
    if contract.has(Capability.MASK):
        assert {case.mask_form for case in made} == set(MaskForm)
        assert {case.mask_type for case in made} == set(MaskType)
    if contract.has(Capability.DROPOUT):
        assert {case.dropout for case in made} == set(LEVELS["dropout"])


INDEPENDENT = tuple(name for name in LEVELS if name != "tokens")


def pairs_met(contract: Contract, made: tuple[Case, ...]) -> float:
    """The share of all pairs of levels met, among the fields that the contract leaves free."""

    def leaves_free(name: str) -> bool:
        if name == "mask_type" and not contract.has(Capability.MASK):
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
def test_case_set_covers_most_pairs_and_a_larger_one_all(slug: str) -> None:
    contract = get_contract(slug)
    # Measured: 0.80 (masked_multi_head, with most fields) to 0.98.
    assert pairs_met(contract, generate_case_set(contract, 24)) > 0.75
    assert pairs_met(contract, generate_case_set(contract, 120)) == 1


def test_designed_case_set_covers_more_pairs_than_chance() -> None:
    drawn: list[Case] = []

    def collect(case: Case) -> bool:
        drawn.append(case)
        return False

    with pytest.raises(NoSuchExample):
        find(cases(MULTI_HEAD), collect, settings=settings(SEARCH_SETTINGS, max_examples=24))
    chance = pairs_met(MULTI_HEAD, tuple(drawn))
    assert len(drawn) >= 24
    assert pairs_met(MULTI_HEAD, generate_case_set(MULTI_HEAD, 24)) > chance + 0.1
