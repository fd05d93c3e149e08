"""Cases of a search: the same everywhere, far beyond the bank, and cheap."""

import hashlib
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.cases.case_tensors import make_parameters, make_tokens
from headcheck.properties.cases.search_cases import (
    MAX_LONG_WORK,
    MAX_SCORES,
    MAX_WORK,
    PLAIN_EVERY,
    estimate_work,
    generate_search_cases,
    is_long,
    is_plain,
)
from headcheck.properties.contracts.contract import Contract, Returns
from headcheck.properties.terms.case import Case, MaskForm
from tests.properties.contracts import (
    MASKED,
    MULTI_HEAD,
    PLAIN,
    SMALL,
    assert_allowed,
    every_contract,
    every_small_contract,
    get_contract,
)

ROOT = Path(__file__).parents[3]


def draw(contract: Contract, count: int, seed: int = 0) -> list[Case]:
    return list(islice(generate_search_cases(contract, seed, "owner"), count))


@every_contract
def test_every_case_is_allowed_and_can_be_made(slug: str) -> None:
    contract = get_contract(slug)
    for case in draw(contract, 40):
        assert_allowed(case, contract)
        if slug in SMALL:
            x, parameters = make_tokens(case, contract), make_parameters(case, contract)
            assert x.shape == (case.batch, case.tokens, case.d_in)
            assert parameters.W_q.shape == (case.d_out, case.d_in)


def test_sizes_go_far_beyond_the_case_set() -> None:
    cases = draw(MULTI_HEAD, 2000)
    fixed = generate_case_set(MULTI_HEAD)
    for name, far in (("tokens", 290), ("heads", 20), ("head_dim", 120), ("batch", 65)):
        largest = max(getattr(case, name) for case in cases)
        assert far <= largest > max(getattr(case, name) for case in fixed)
    assert any(case.tokens > 1025 for case in cases)
    assert any(case.context_length > 512 for case in cases)


@pytest.mark.parametrize(
    ("name", "edges"),
    [
        ("tokens", (31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 512, 1025)),
        ("heads", (8, 9, 12, 16, 17)),
        ("head_dim", (31, 32, 33, 63, 64, 65, 80, 96, 127, 128, 129)),
        ("batch", (31, 32, 33, 63, 64, 65)),
    ],
)
def test_sizes_at_which_code_changes_its_path_are_drawn(name: str, edges: tuple[int, ...]) -> None:
    for seed in range(3):
        assert set(edges) <= {getattr(case, name) for case in draw(MULTI_HEAD, 200, seed)}


def test_options_of_every_kind_are_drawn() -> None:
    cases = draw(MASKED, 600)
    assert {case.mask_form for case in cases} == set(MaskForm)
    for name, least in (("content", 4), ("memory", 3), ("mask_type", 3)):
        assert len({getattr(case, name) for case in cases}) >= least
    assert {case.dtype for case in cases} == {"float64", "float32", "bfloat16"}
    assert {case.bias for case in draw(MULTI_HEAD, 50)} == {True, False}
    assert len({case.dropout for case in draw(MULTI_HEAD, 50)}) == 3


@every_small_contract
def test_no_case_costs_much(slug: str) -> None:
    cases = draw(get_contract(slug), 500)
    assert max(map(estimate_work, cases)) <= MAX_LONG_WORK
    assert all(estimate_work(case) <= MAX_WORK for case in cases if not is_long(case))
    assert sum(map(is_long, cases)) <= 0.15 * len(cases)
    # The longest, one in each round of the edges, costs as much as some dozens of others.
    assert sum(map(estimate_work, cases)) / len(cases) <= 2 * MAX_WORK


def test_weights_that_are_returned_are_few_enough_to_send_back() -> None:
    """A right answer is accused of a frame that is too large otherwise."""
    for slug in ("causal_weights", "masked_multi_head"):
        contract = get_contract(slug)
        assert contract.returns in (Returns.OUTPUT_AND_WEIGHTS, Returns.WEIGHTS_TWICE)
        cases = draw(contract, 300)
        assert max(case.batch * case.heads * case.tokens**2 for case in cases) <= MAX_SCORES


def test_large_fixed_sizes_are_kept_and_short() -> None:
    cases = draw(get_contract("gpt2_size"), 40)
    assert {case.d_in for case in cases} == {768}
    assert max(case.tokens for case in cases) <= 32


def test_plain_cases_are_small() -> None:
    cases = draw(MULTI_HEAD, 4 * PLAIN_EVERY)
    plain = [case for number, case in enumerate(cases) if is_plain(number)]
    assert len(plain) == 4
    assert all(max(case.batch, case.tokens, case.heads, case.head_dim) <= 64 for case in plain)
    assert {case.dtype for case in plain} == {"float64"}


def test_each_case_depends_on_seed_owner_and_number_alone() -> None:
    first = draw(PLAIN, 30)
    assert draw(PLAIN, 60)[:30] == first
    assert not set(first) & set(draw(PLAIN, 30, seed=1))
    assert not set(first) & set(islice(generate_search_cases(PLAIN, 0, "another"), 30))
    found = generate_search_cases(PLAIN, 0, "owner", "cuda")
    assert {case.device for case in islice(found, 9)} == {"cuda"}


def test_cases_are_the_same_in_another_process_and_without_hypothesis() -> None:
    program = (
        "import sys, hashlib; sys.modules['hypothesis'] = None\n"
        "from itertools import islice\n"
        "from headcheck.exercises import BY_SLUG\n"
        "from headcheck.properties.cases.search_cases import generate_search_cases\n"
        "contract = BY_SLUG['multi_head_attention'].contract\n"
        "cases = list(islice(generate_search_cases(contract, 7, 'owner'), 50))\n"
        "print(hashlib.sha256(repr(cases).encode()).hexdigest())\n"
    )
    made = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, text=True
    )
    here = repr(draw(BY_SLUG["multi_head_attention"].contract, 50, seed=7))
    assert made.stdout.strip() == hashlib.sha256(here.encode()).hexdigest()
