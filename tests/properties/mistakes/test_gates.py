"""Mistakes about gates are named where a gate is asked for, and only there."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.mistakes.catalogue import GATES, Mistake, gates
from headcheck.properties.mistakes.catalogue.gradients import GRADIENTS
from headcheck.properties.mistakes.pipeline import StepOverrides
from headcheck.properties.mistakes.steps import scores
from headcheck.properties.mistakes.worked_example import work_example
from tests.properties.mistakes.naming import find_names

CONTRACT = BY_SLUG["gated_attention"].contract
PLAIN = BY_SLUG["multi_head_attention"].contract
EACH = pytest.mark.parametrize("each", GATES, ids=lambda each: each.name)


def name_mistakes(overrides: StepOverrides, contract: Contract = CONTRACT) -> list[str]:
    return find_names(overrides, contract)


@EACH
def test_each_is_named(each: Mistake) -> None:
    named = [name_mistakes(way) for way in each.variants]
    assert named == [[each.name]] * len(named)


def test_what_is_right_is_not_named() -> None:
    assert name_mistakes({}) == []


def test_mistakes_about_other_steps_are_named_beside_a_gate() -> None:
    assert name_mistakes({"scale": scores.unscaled}) == ["no_scale"]
    both: StepOverrides = {"scale": scores.unscaled, "gate": gates.open_gate}
    assert set(name_mistakes(both)) == {"no_scale", "gate_not_used"}


def test_a_gate_without_a_gradient_is_named() -> None:
    [mistake] = [each for each in GRADIENTS if each.name == "gate_detached"]
    assert name_mistakes(mistake.variants[0]) == ["gate_detached"]
    assert not mistake.applies_to(PLAIN)


@EACH
def test_examples_are_of_what_is_asked_for(each: Mistake) -> None:
    found = work_example(CONTRACT, each)
    if found is not None:
        assert found.right != found.wrong


def test_an_example_shows_what_the_gate_makes_of_the_merged_heads() -> None:
    found = work_example(CONTRACT, GATES[0])
    assert found is not None
    assert (found.given, found.result) == ("merged", "output layer's input")
    assert found.wrong == found.before != found.right
