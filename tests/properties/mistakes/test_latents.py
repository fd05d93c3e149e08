"""Mistakes about latents and what is turned beside heads are named there, and only there."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.mistakes.catalogue import LATENTS, ROTARY, Mistake, latents
from headcheck.properties.mistakes.catalogue.gradients import GRADIENTS
from headcheck.properties.mistakes.catalogue.latents import with_latents
from headcheck.properties.mistakes.catalogue.scale import SCALE
from headcheck.properties.mistakes.pipeline import StepOverrides
from headcheck.properties.mistakes.steps import scores
from headcheck.properties.mistakes.worked_example import work_example
from tests.properties.mistakes.naming import find_names

CONTRACT = BY_SLUG["latent_attention"].contract
LLAMA = BY_SLUG["llama_attention"].contract
EACH = pytest.mark.sampled("each", LATENTS, LATENTS[::3], ids=lambda each: each.name)
TURNED = [each for each in ROTARY if each.applies_to(CONTRACT)]


def name_mistakes(overrides: StepOverrides, contract: Contract = CONTRACT) -> list[str]:
    return find_names(overrides, contract)


@EACH
def test_each_is_named(each: Mistake) -> None:
    named = [name_mistakes(way) for way in each.variants]
    assert named == [[each.name]] * len(named)


@pytest.mark.parametrize("each", TURNED, ids=lambda each: each.name)
def test_mistakes_in_turning_are_named_beside_heads_too(each: Mistake) -> None:
    assert [each.name] in [name_mistakes(way) for way in each.variants]


def test_what_is_right_is_not_named() -> None:
    assert name_mistakes({}) == []


def test_mistakes_about_other_steps_are_named_beside_them() -> None:
    assert name_mistakes({"scale": scores.unscaled}) == ["no_scale"]
    both: StepOverrides = {
        "scale": scores.unscaled,
        "project": with_latents(latents.layer_normed, latents.layer_normed),
    }
    assert set(name_mistakes(both)) == {"no_scale", "latents_normalised"}


@pytest.mark.parametrize("name", ["latents_detached", "turned_keys_detached"])
def test_layers_without_a_gradient_are_named(name: str) -> None:
    [mistake] = [each for each in GRADIENTS if each.name == name]
    assert name_mistakes(mistake.variants[0]) == [name]
    assert not mistake.applies_to(LLAMA)


@EACH
def test_examples_are_of_what_is_asked_for(each: Mistake) -> None:
    found = work_example(CONTRACT, each)
    if found is not None:
        assert found.right != found.wrong


def test_what_is_said_is_true_of_both_parts() -> None:
    [unscaled] = [each for each in SCALE if each.name == "no_scale"]
    assert "a whole query's width" in unscaled.describe(CONTRACT)
    [pairs] = [each for each in ROTARY if each.name == "neighbours_turned_together"]
    assert "i + rope_dim/2" in pairs.describe(CONTRACT)
    assert "i + head_dim/2" in pairs.describe(LLAMA)


def test_an_example_shows_both_parts() -> None:
    [forgotten] = [each for each in LATENTS if each.name == "turned_part_left_out"]
    found = work_example(CONTRACT, forgotten)
    assert found is not None
    assert (found.given, found.result) == ("queries", "q·k")
    assert "with 4 turned numbers beside each head" in found.sizes
    assert {len(row) for row in found.before} == {8}
