"""Mistakes about padding are named where they can be made, and only there."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue import DETERMINISTIC, OF_SOME_CONTRACTS, Mistake
from tests.properties.mistakes.naming import find_names

CONTRACT = BY_SLUG["padding_mask"].contract
OWN = [each for each in OF_SOME_CONTRACTS if Capability.PADDING in each.needs]
BY_NAME = {each.name: each for each in DETERMINISTIC}
COMMON = (
    "no_mask",
    "padding_hides_queries",
    "mask_inverted",
    "mask_on_first_head",
    "mask_on_first_sequence",
    "causal_though_not_asked",
    "filled_with_zero",
    "filled_with_small_number",
    "masked_after_softmax",
    "no_scale",
)


@pytest.mark.parametrize("each", OWN, ids=lambda each: each.name)
def test_each_is_named(each: Mistake) -> None:
    assert all(find_names(way, CONTRACT) == [each.name] for way in each.variants)


@pytest.mark.parametrize("name", COMMON)
def test_mistakes_of_any_mask_are_named_too(name: str) -> None:
    assert find_names(BY_NAME[name].variants[0], CONTRACT) == [name]


def test_a_right_answer_has_none() -> None:
    assert find_names({}, CONTRACT) == []


def test_a_mask_of_keys_cannot_be_transposed() -> None:
    transposed = BY_NAME["mask_transposed"]
    assert not transposed.applies_to(CONTRACT)
    for slug in ("multi_head_attention", "masked_multi_head"):
        assert transposed.applies_to(BY_SLUG[slug].contract)


def test_they_are_not_tried_elsewhere() -> None:
    for exercise in BY_SLUG.values():
        padded = exercise.contract.has(Capability.PADDING)
        assert all(each.applies_to(exercise.contract) is padded for each in OWN)
