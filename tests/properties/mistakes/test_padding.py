"""Mistakes about padding are named where they can be made, and only there."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue import DETERMINISTIC, OF_SOME_CONTRACTS, Mistake
from headcheck.properties.mistakes.diagnosis import diagnose
from headcheck.properties.mistakes.faulty_attention import Computation, make_namespace, restate
from headcheck.properties.mistakes.pipeline import CORRECT, StepOverrides

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


def name_mistakes(overrides: StepOverrides) -> list[str]:
    restated = restate(CONTRACT)
    namespace = make_namespace(restated, Computation((CORRECT.override(overrides),)))
    return [found.mistake.name for found in diagnose(Harness(make_subject(namespace), restated))]


@pytest.mark.parametrize("each", OWN, ids=lambda each: each.name)
def test_each_is_named(each: Mistake) -> None:
    assert [name_mistakes(way) for way in each.variants] == [[each.name]] * len(each.variants)


@pytest.mark.parametrize("name", COMMON)
def test_mistakes_of_any_mask_are_named_too(name: str) -> None:
    assert name_mistakes(BY_NAME[name].variants[0]) == [name]


def test_a_right_answer_has_none() -> None:
    assert name_mistakes({}) == []


def test_a_mask_of_keys_cannot_be_transposed() -> None:
    transposed = BY_NAME["mask_transposed"]
    assert not transposed.applies_to(CONTRACT)
    for slug in ("multi_head_attention", "masked_multi_head"):
        assert transposed.applies_to(BY_SLUG[slug].contract)


def test_they_are_not_tried_elsewhere() -> None:
    for exercise in BY_SLUG.values():
        padded = exercise.contract.has(Capability.PADDING)
        assert all(each.applies_to(exercise.contract) is padded for each in OWN)
