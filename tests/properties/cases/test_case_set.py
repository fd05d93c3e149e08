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

from exercises import ALL, Exercise
from properties.case import Case, MaskForm, MaskType
from properties.cases.case_set import LEVELS, bank
from properties.cases.strategies import cases
from properties.contract import Contract, Trait
from tests.properties.contracts import (
    FIND,
    MULTI_HEAD,
    contract_of,
    every_contract,
    must_be_allowed,
)


def digest(banks: Iterable[Iterable[Case]]) -> str:
    text = "\n".join(repr(case) for cases_ in banks for case in cases_)
    return hashlib.sha256(text.encode()).hexdigest()


ELSEWHERE = """
import hashlib
from exercises import ALL
from properties.cases.case_set import bank
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
