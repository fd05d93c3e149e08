"""Mistakes about sinks are named where sinks are asked for, and only there."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.mistakes.catalogue import SINKS, Mistake, sinks
from headcheck.properties.mistakes.catalogue.gradients import GRADIENTS
from headcheck.properties.mistakes.pipeline import StepOverrides
from headcheck.properties.mistakes.steps import scores
from headcheck.properties.mistakes.worked_example import work_example
from tests.properties.mistakes.naming import find_names

CONTRACT = BY_SLUG["attention_sink"].contract
PLAIN = BY_SLUG["multi_head_attention"].contract
EACH = pytest.mark.parametrize("each", SINKS, ids=lambda each: each.name)


def name_mistakes(overrides: StepOverrides, contract: Contract = CONTRACT) -> list[str]:
    return find_names(overrides, contract)


@EACH
def test_each_is_named(each: Mistake) -> None:
    named = [name_mistakes(way) for way in each.variants]
    assert named == [[each.name]] * len(named)


def test_what_is_right_is_not_named() -> None:
    assert name_mistakes({}) == []


def test_mistakes_about_other_steps_are_named_beside_sinks() -> None:
    assert name_mistakes({"scale": scores.unscaled}) == ["no_scale"]
    assert name_mistakes({"permit": scores.no_mask}) == ["no_mask"]
    both: StepOverrides = {"scale": scores.unscaled, "normalise": sinks.without_sinks}
    assert set(name_mistakes(both)) == {"no_scale", "sinks_without_effect"}


def test_sinks_without_a_gradient_are_named() -> None:
    [mistake] = [each for each in GRADIENTS if each.name == "sinks_detached"]
    assert name_mistakes(mistake.variants[0]) == ["sinks_detached"]


def test_without_sinks_none_of_their_mistakes_is_tried() -> None:
    assert not any(each.applies_to(PLAIN) for each in GRADIENTS if each.name == "sinks_detached")
    one_more: StepOverrides = {"normalise": scores.denominator_plus(1.0, False)}
    assert name_mistakes(one_more, PLAIN) == ["number_in_denominator"]
    assert name_mistakes(one_more) == ["sinks_of_zero"]


@EACH
def test_examples_are_of_what_is_asked_for(each: Mistake) -> None:
    found = work_example(CONTRACT, each)
    if found is not None:
        assert found.right != found.wrong
        assert "sink" in found.sizes


def test_an_example_shows_what_the_sink_leaves() -> None:
    found = work_example(CONTRACT, SINKS[0])
    assert found is not None and found.result == "weights"
    assert found.sizes == "2 tokens, a sink of 2, queries of width 4"
    # The first token sees itself alone, with a score of 2, as high as the sink.
    assert (found.right[0], found.wrong[0]) == (("0.5", "0"), ("1", "0"))
