"""The sizes that properties bring along: what occurs, what it costs, what a contract allows."""

import itertools

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.families import select_for_contract
from headcheck.properties.families.sizes import LONG, MANY, WIDE, every_size_is_right, order_lengths
from headcheck.properties.terms.case import Case
from tests.properties.contracts import assert_allowed, every_contract, get_contract

CONTRACT = BY_SLUG["multi_head_attention"].contract
SET = [Case(seed=seed) for seed in range(1, 4)]


def list_small_cases() -> tuple[Case, ...]:
    return every_size_is_right.select_cases(CONTRACT, SET)


def test_every_small_number_occurs() -> None:
    cases = list_small_cases()
    assert {case.tokens for case in cases} >= {*range(1, 18), 31, 32, 33, 48, 63, 64}
    assert {case.batch for case in cases} >= {*range(1, 11), 15, 16, 17, 31, 32, 33}
    assert {case.heads for case in cases} >= {1, 2, 3, 4, 5, 6}
    assert {case.head_dim for case in cases} >= {1, 2, 3, 4, 5, 6, 7}
    assert len({replaced_seed(case) for case in cases}) > 140


def test_each_length_follows_each() -> None:
    order = order_lengths(4)
    assert len(order) == 4 * 4 + 1
    assert set(itertools.pairwise(order)) == set(itertools.product(range(1, 5), repeat=2))


def replaced_seed(case: Case) -> tuple[int, ...]:
    return case.batch, case.tokens, case.context_length, case.d_in, case.heads, case.head_dim


def test_sizes_cost_what_they_must() -> None:
    scores = [case.batch * case.heads * case.tokens**2 for case in list_small_cases()]
    assert sum(scores) < 1_000_000
    assert max(scores) < 25_000


@pytest.mark.parametrize("sizes", [LONG, MANY, WIDE])
def test_large_sizes_reach_the_edges(sizes: tuple[dict[str, int], ...]) -> None:
    largest = (
        max(each["batch"] * each["heads"] * each["tokens"] ** 2 for each in sizes),
        max(each["heads"] * each["head_dim"] for each in sizes),
    )
    assert largest[0] > 2**16 or largest[1] >= 64


def test_a_sequence_fills_its_context_unless_sizes_say_otherwise() -> None:
    for case in list_small_cases():
        assert case.tokens <= case.context_length


@every_contract
def test_sizes_are_cases_that_the_contract_allows(slug: str) -> None:
    contract = get_contract(slug)
    for prop in select_for_contract(contract):
        if prop.list_sizes is not None:
            cases = prop.select_cases(contract, SET)
            assert cases or not contract.has(Capability.WIDTHS)
            for case in cases:
                assert_allowed(case, contract)
