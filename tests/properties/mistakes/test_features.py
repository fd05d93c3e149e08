"""Mistakes about features and shares are named there, and only there."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.mistakes.catalogue import EQUATION, FEATURES, Mistake, features
from headcheck.properties.mistakes.catalogue.gradients import GRADIENTS
from headcheck.properties.mistakes.pipeline import StepOverrides
from headcheck.properties.mistakes.steps import scores
from headcheck.properties.mistakes.worked_example import work_example
from tests.properties.mistakes.naming import find_names

CONTRACT = BY_SLUG["linear_attention"].contract
PLAIN = BY_SLUG["multi_head_attention"].contract
EACH = pytest.mark.sampled("each", FEATURES, FEATURES[::3], ids=lambda each: each.name)


def name_mistakes(overrides: StepOverrides, contract: Contract = CONTRACT) -> list[str]:
    return find_names(overrides, contract)


@EACH
def test_each_is_named(each: Mistake) -> None:
    named = [name_mistakes(way) for way in each.variants]
    assert named == [[each.name]] * len(named)


def test_what_is_right_is_not_named() -> None:
    assert name_mistakes({}) == []


def test_mistakes_about_other_steps_are_named_beside_them() -> None:
    assert name_mistakes({"permit": scores.no_mask}) == ["no_mask"]
    both: StepOverrides = {"permit": scores.no_mask, "normalise": features.undivided}
    assert set(name_mistakes(both)) == {"no_mask", "shares_not_divided"}


def test_no_mistake_about_a_softmax_is_looked_for() -> None:
    unasked = {each.name for each in EQUATION if not each.applies_to(CONTRACT)}
    assert {"no_scale", "no_softmax", "masked_after_softmax"} <= unasked
    assert name_mistakes({"scale": lambda s: s.raw_scores / 3}) == []  # it cancels


def test_a_divisor_without_a_gradient_is_named() -> None:
    [mistake] = [each for each in GRADIENTS if each.name == "divisor_detached"]
    assert name_mistakes(mistake.variants[0]) == ["divisor_detached"]
    assert not mistake.applies_to(PLAIN)


@EACH
def test_examples_are_of_what_is_asked_for(each: Mistake) -> None:
    found = work_example(CONTRACT, each)
    if found is not None:
        assert found.right != found.wrong
