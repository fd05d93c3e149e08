"""Mistakes in a window, and in keys that heads share, are named where they can be made."""

import pytest
import torch

from headcheck.exercises import BY_SLUG
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.mistakes.catalogue import DETERMINISTIC, OF_SOME_CONTRACTS, Mistake
from headcheck.properties.mistakes.faulty_attention import Computation, make_namespace, restate
from headcheck.properties.mistakes.pipeline import CORRECT
from headcheck.properties.mistakes.worked_example import work_example
from headcheck.properties.terms.case import Case
from tests.properties.mistakes.naming import find_names

PLAIN = BY_SLUG["multi_head_attention"].contract
SLUGS = {Capability.WINDOW: "sliding_window", Capability.GROUPED: "grouped_query"}
CONTRACTS = {capability: BY_SLUG[slug].contract for capability, slug in SLUGS.items()}
OWN = [each for each in OF_SOME_CONTRACTS if each.needs & CONTRACTS.keys()]
BY_NAME = {each.name: each for each in (*DETERMINISTIC, *OF_SOME_CONTRACTS)}
COMMON = (
    "no_scale",
    "no_mask",
    "next_token_visible",
    "own_token_hidden",
    "mask_transposed",
    "mask_inverted",
    "filled_with_zero",
    "masked_after_softmax",
    "split_without_transpose",
    "split_channel_major",
    "heads_interleaved",
    "merge_without_transpose",
)


def contract_of(each: Mistake) -> Contract:
    return next(contract for needed, contract in CONTRACTS.items() if needed in each.needs)


@pytest.mark.parametrize("each", OWN, ids=lambda each: each.name)
def test_each_is_named(each: Mistake) -> None:
    assert all(find_names(way, contract_of(each)) == [each.name] for way in each.variants)


@pytest.mark.parametrize("contract", CONTRACTS.values(), ids=lambda contract: contract.name)
def test_right_attention_is_not_named(contract: Contract) -> None:
    assert find_names({}, contract) == []


@pytest.mark.parametrize("name", COMMON)
@pytest.mark.parametrize("contract", CONTRACTS.values(), ids=lambda contract: contract.name)
def test_common_mistakes_keep_their_names(contract: Contract, name: str) -> None:
    assert find_names(BY_NAME[name].variants[0], contract) == [name]


def test_two_mistakes_are_two() -> None:
    one, other = BY_NAME["window_too_long"], BY_NAME["no_scale"]
    overrides = {**one.variants[0], **other.variants[0]}
    found = find_names(overrides, CONTRACTS[Capability.WINDOW])
    assert set(found) == {"window_too_long", "no_scale"}


def test_a_window_is_a_mistake_only_where_none_is_asked_for() -> None:
    forgetful = BY_NAME["window"]
    assert forgetful.applies_to(PLAIN)
    assert not forgetful.applies_to(CONTRACTS[Capability.WINDOW])
    assert not any(each.applies_to(PLAIN) for each in OWN)


def test_shared_keys_are_split_into_fewer_heads() -> None:
    """A faulty step splits keys and values into their own number of heads, as a right one does."""
    overrides = BY_NAME["heads_interleaved"].variants[0]
    restated = restate(CONTRACTS[Capability.GROUPED])
    module = make_namespace(restated, Computation((CORRECT.override(overrides),)))
    build = module[restated.name]
    assert callable(build)
    case = restated.fit(Case(batch=2, tokens=3, d_in=5, heads=6, group=3, head_dim=2))
    made = build(**restated.build_arguments(case))
    assert made(torch.randn(2, 3, 5)).shape == (2, 3, 12)


def test_heads_that_cannot_share_evenly_are_refused() -> None:
    restated = restate(CONTRACTS[Capability.GROUPED])
    build = make_namespace(restated, Computation((CORRECT,)))[restated.name]
    assert callable(build)
    arguments = restated.build_arguments(restated.fit(Case(heads=6, group=3)))
    for count in (4, 5, 12):
        with pytest.raises(ValueError, match=f"6 heads cannot share {count} of keys and values"):
            build(**{**arguments, "kv_heads": count})


@pytest.mark.parametrize(
    "each", [e for e in OWN if Capability.WINDOW in e.needs], ids=lambda each: each.name
)
def test_a_mistake_in_a_window_is_shown_on_numbers(each: Mistake) -> None:
    found = work_example(CONTRACTS[Capability.WINDOW], each)
    assert found is not None
    assert "window = 2" in found.sizes
    assert found.result == "weights"


def test_an_example_within_a_window_is_that_of_the_equation() -> None:
    contract = CONTRACTS[Capability.WINDOW]
    found = work_example(contract, BY_NAME["no_window"])
    assert found is not None
    hidden = [[cell == "0" for cell in row] for row in found.right]
    assert hidden == [[0, 1, 1], [0, 0, 1], [1, 0, 0]]
    two = CORRECT.override(BY_NAME["window"].variants[0])
    plain = work_example(PLAIN, BY_NAME["window"], [[two]])
    assert plain is not None and "window =" not in plain.sizes
