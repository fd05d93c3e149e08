"""Mistakes about parts of attention are named where a part is asked for, and only there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.properties.contracts.contract import Contract, Positions
from headcheck.properties.mistakes.catalogue import (
    DIFFERENTIAL,
    EQUATION,
    FEATURES,
    GATES,
    LATENTS,
    ROTARY,
    SINKS,
    Mistake,
    differential,
    features,
    gates,
    latents,
    sinks,
)
from headcheck.properties.mistakes.catalogue.latents import with_latents
from headcheck.properties.mistakes.catalogue.scale import SCALE
from headcheck.properties.mistakes.pipeline import StepOverrides
from headcheck.properties.mistakes.steps import scores
from headcheck.properties.mistakes.worked_example import work_example
from tests.properties.mistakes.naming import find_names

PLAIN = BY_SLUG["multi_head_attention"].contract
LLAMA = BY_SLUG["llama_attention"].contract
UNSCALED: StepOverrides = {"scale": scores.unscaled}
UNMASKED: StepOverrides = {"permit": scores.no_mask}


@dataclass(frozen=True)
class Part:
    """A part of attention: the exercise that asks for it, and the mistakes about it."""

    slug: str
    mistakes: Sequence[Mistake]
    other: StepOverrides
    """a mistake about another step, of this name"""
    other_name: str
    own: StepOverrides
    """one of the mistakes about the part, of this name"""
    own_name: str

    @property
    def contract(self) -> Contract:
        return BY_SLUG[self.slug].contract


SINK = Part(
    "attention_sink",
    SINKS,
    *(UNSCALED, "no_scale"),
    *({"normalise": sinks.without_sinks}, "sinks_without_effect"),
)
GATE = Part(
    "gated_attention",
    GATES,
    *(UNSCALED, "no_scale"),
    *({"gate": gates.open_gate}, "gate_not_used"),
)
SHARES = Part(
    "linear_attention",
    FEATURES,
    *(UNMASKED, "no_mask"),
    *({"normalise": features.undivided}, "shares_not_divided"),
)
MAPS = Part(
    "differential_attention",
    DIFFERENTIAL,
    *(UNSCALED, "no_scale"),
    {"subtract": differential.weighed_by(lambda first, second, _: first)},
    "second_map_without_effect",
)
LATENT = Part(
    "latent_attention",
    LATENTS,
    *(UNSCALED, "no_scale"),
    {"project": with_latents(latents.layer_normed, latents.layer_normed)},
    "latents_normalised",
)
PARTS = (SINK, GATE, SHARES, MAPS, LATENT)
ALL = [(part, each) for part in PARTS for each in part.mistakes]
SOME = [(part, each) for part in PARTS for each in part.mistakes[::3]]
EACH = pytest.mark.sampled(
    ("part", "each"), ALL, SOME, ids=lambda each: each.name if isinstance(each, Mistake) else ""
)
ON_PARTS = pytest.mark.parametrize("part", PARTS, ids=lambda part: part.slug)


@EACH
def test_each_is_named(part: Part, each: Mistake) -> None:
    named = [find_names(way, part.contract) for way in each.variants]
    assert named == [[each.name]] * len(named)


@ON_PARTS
def test_what_is_right_is_not_named(part: Part) -> None:
    assert find_names({}, part.contract) == []


@ON_PARTS
def test_mistakes_about_other_steps_are_named_beside_a_part(part: Part) -> None:
    assert find_names(part.other, part.contract) == [part.other_name]
    both: StepOverrides = {**part.other, **part.own}
    assert set(find_names(both, part.contract)) == {part.other_name, part.own_name}


@EACH
def test_examples_are_of_what_is_asked_for(part: Part, each: Mistake) -> None:
    found = work_example(part.contract, each)
    if found is not None:
        assert found.right != found.wrong
        assert part is not SINK or "sink" in found.sizes


TURNING = [each for each in ROTARY if each.applies_to(LATENT.contract)]


@pytest.mark.parametrize("each", TURNING, ids=lambda each: each.name)
def test_mistakes_in_turning_are_named_beside_heads_too(each: Mistake) -> None:
    assert [each.name] in [find_names(way, LATENT.contract) for way in each.variants]


def test_a_number_in_the_divisor_is_a_sink_only_where_there_are_sinks() -> None:
    one_more: StepOverrides = {"normalise": scores.denominator_plus(1.0, False)}
    assert find_names(one_more, PLAIN) == ["number_in_denominator"]
    assert find_names(one_more, SINK.contract) == ["sinks_of_zero"]


def test_no_mistake_about_a_softmax_is_looked_for_in_shares() -> None:
    unasked = {each.name for each in EQUATION if not each.applies_to(SHARES.contract)}
    assert {"no_scale", "no_softmax", "masked_after_softmax"} <= unasked
    cancels: StepOverrides = {"scale": lambda s: s.raw_scores / 3}
    assert find_names(cancels, SHARES.contract) == []


def test_what_is_said_of_the_scale_is_true_of_halves() -> None:
    [unscaled] = [each for each in SCALE if each.name == "no_scale"]
    assert "half a head's width" in unscaled.describe(MAPS.contract)
    [asked] = [each for each in SCALE if each.name == "scale_not_asked_for"]
    assert asked.applies_to(PLAIN) and not asked.applies_to(MAPS.contract)


@pytest.mark.parametrize(
    ("part", "given", "result", "sizes"),
    [
        (SINK, "scores", "weights", "2 tokens, a sink of 2, queries of width 4"),
        (GATE, "merged", "output layer's input", ""),
        (MAPS, "scores", "weights", "lambda = 0.5"),
    ],
    ids=["sinks", "gates", "maps"],
)
def test_an_example_shows_what_the_part_does(
    part: Part, given: str, result: str, sizes: str
) -> None:
    found = work_example(part.contract, part.mistakes[0])
    assert found is not None
    assert (found.given, found.result) == (given, result) and sizes in found.sizes
    if part is SINK:  # The first token sees itself alone, with a score of 2, as high as the sink.
        assert (found.right[0], found.wrong[0]) == (("0.5", "0"), ("1", "0"))
    if part is GATE:
        assert found.wrong == found.before != found.right


def test_what_is_said_is_true_of_latents_and_of_what_turns_beside_them() -> None:
    [unscaled] = [each for each in SCALE if each.name == "no_scale"]
    assert "a whole query's width" in unscaled.describe(LATENT.contract)
    [pairs] = [each for each in ROTARY if each.name == "neighbours_turned_together"]
    assert "i + rope_dim/2" in pairs.describe(LATENT.contract)
    assert "i + head_dim/2" in pairs.describe(LLAMA)


def test_what_is_wrong_about_halves_is_not_tried_for_neighbours() -> None:
    neighbours = replace(LLAMA, positions=Positions.ROTARY_NEIGHBOURS)
    applying = {each.name for each in ROTARY if each.applies_to(neighbours)}
    assert {"only_keys_turned", "turned_backwards", "sine_not_negated"} < applying
    assert not {"neighbours_turned_together", "halves_not_swapped"} & applying


def test_an_example_shows_latents_and_what_turns_beside_them() -> None:
    [forgotten] = [each for each in LATENTS if each.name == "turned_part_left_out"]
    found = work_example(LATENT.contract, forgotten)
    assert found is not None
    assert (found.given, found.result) == ("queries", "q·k")
    assert "with 4 turned numbers beside each head" in found.sizes
    assert {len(row) for row in found.before} == {8}
