"""Mistakes about the two maps of differential attention are named there, and only there."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.mistakes.catalogue import DIFFERENTIAL, Mistake, differential
from headcheck.properties.mistakes.catalogue.gradients import GRADIENTS
from headcheck.properties.mistakes.catalogue.scale import SCALE
from headcheck.properties.mistakes.pipeline import StepOverrides
from headcheck.properties.mistakes.steps import scores
from headcheck.properties.mistakes.worked_example import work_example
from tests.properties.mistakes.naming import find_names

CONTRACT = BY_SLUG["differential_attention"].contract
PLAIN = BY_SLUG["multi_head_attention"].contract
EACH = pytest.mark.sampled("each", DIFFERENTIAL, DIFFERENTIAL[::3], ids=lambda each: each.name)


def name_mistakes(overrides: StepOverrides, contract: Contract = CONTRACT) -> list[str]:
    return find_names(overrides, contract)


@EACH
def test_each_is_named(each: Mistake) -> None:
    named = [name_mistakes(way) for way in each.variants]
    assert named == [[each.name]] * len(named)


def test_what_is_right_is_not_named() -> None:
    assert name_mistakes({}) == []


def test_mistakes_about_other_steps_are_named_beside_them() -> None:
    assert name_mistakes({"scale": scores.unscaled}) == ["no_scale"]
    both: StepOverrides = {
        "scale": scores.unscaled,
        "subtract": differential.weighed_by(lambda first, second, _: first),
    }
    assert set(name_mistakes(both)) == {"no_scale", "second_map_without_effect"}


def test_lambdas_without_a_gradient_are_named() -> None:
    [mistake] = [each for each in GRADIENTS if each.name == "lambdas_detached"]
    assert name_mistakes(mistake.variants[0]) == ["lambdas_detached"]
    assert not mistake.applies_to(PLAIN)


@EACH
def test_examples_are_of_what_is_asked_for(each: Mistake) -> None:
    found = work_example(CONTRACT, each)
    if found is not None:
        assert found.right != found.wrong


def test_what_is_said_of_the_scale_is_true_of_halves() -> None:
    [unscaled] = [each for each in SCALE if each.name == "no_scale"]
    assert "half a head's width" in unscaled.describe(CONTRACT)
    [asked] = [each for each in SCALE if each.name == "scale_not_asked_for"]
    assert asked.applies_to(PLAIN) and not asked.applies_to(CONTRACT)


def test_an_example_shows_two_maps_become_weights() -> None:
    found = work_example(CONTRACT, DIFFERENTIAL[0])
    assert found is not None
    assert (found.given, found.result) == ("scores", "weights")
    assert "lambda = 0.5" in found.sizes
