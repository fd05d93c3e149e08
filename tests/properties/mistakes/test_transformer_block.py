"""Mistakes around attention are named in a block, and only there, as are those in attention."""

from dataclasses import replace

import pytest
import torch

from headcheck.exercises import BY_SLUG
from headcheck.properties.contracts.contract import Activation, Contract, Norm
from headcheck.properties.mistakes.catalogue import ALL, AROUND_ATTENTION, Mistake
from headcheck.properties.mistakes.example_inputs import list_numbers, make_inputs, set_example
from headcheck.properties.mistakes.pipeline import CORRECT, StepOverrides, run_pipeline
from headcheck.properties.mistakes.steps import scores
from headcheck.properties.mistakes.steps import transformer_block as block
from headcheck.properties.mistakes.worked_example import work_example
from headcheck.reference import transformer_block
from tests.properties.mistakes.naming import find_names

CONTRACT = BY_SLUG["gpt_block"].contract
BY_TANH = replace(CONTRACT, activation=Activation.GELU_TANH)
RMS = replace(CONTRACT, token_norm=Norm.RMS)
ALONE = BY_SLUG["multi_head_attention"].contract
OTHERWISE = {"gelu_not_approximated": BY_TANH}
"""mistakes that are none where the usual GELU is asked for"""

NAMES = [each.name for each in AROUND_ATTENTION]
BY_NAME = {each.name: each for each in ALL}
EACH = pytest.mark.sampled("name", NAMES, NAMES[::4])


def name_mistakes(overrides: StepOverrides, contract: Contract = CONTRACT) -> list[str]:
    return find_names(overrides, contract)


def list_ways(mistake: Mistake) -> list[StepOverrides]:
    """The ways to make a mistake in a block of layer norms and GELU itself."""
    if mistake.name == "another_kind_of_norm":
        return list(mistake.variants[:3])
    return list(mistake.variants[: -3 if mistake.name == "another_epsilon" else None])


@EACH
def test_each_is_named(name: str) -> None:
    mistake, contract = BY_NAME[name], OTHERWISE.get(name, CONTRACT)
    named = [name_mistakes(way, contract) for way in list_ways(mistake)]
    assert named == [[name]] * len(named)


@pytest.mark.parametrize("each", AROUND_ATTENTION, ids=lambda each: each.name)
def test_without_a_block_there_is_none(each: Mistake) -> None:
    assert each.applies_to(CONTRACT)
    assert not each.applies_to(ALONE)


def test_what_is_right_is_not_named() -> None:
    assert name_mistakes({}) == []


def test_what_another_contract_asks_for_is_named() -> None:
    kind = BY_NAME["another_kind_of_norm"]
    assert name_mistakes(kind.variants[3], RMS) == ["another_kind_of_norm"]
    assert name_mistakes({"activate": block.by_tanh}) == ["gelu_approximated"]


def test_mistakes_in_attention_are_named_beside_those_around_it() -> None:
    assert name_mistakes({"scale": scores.unscaled}) == ["no_scale"]
    both: StepOverrides = {"scale": scores.unscaled, "add": block.attended_alone}
    assert set(name_mistakes(both)) == {"no_scale", "first_residual_missing"}
    two: StepOverrides = {"add": block.added_to_normed_tokens, "activate": block.not_activated}
    expected = {"residual_of_normed_tokens", "feed_forward_without_activation"}
    assert set(name_mistakes(two)) == expected


@pytest.mark.parametrize(
    "name", ["residual_added", "input_normalised", "values_returned", "output_detached"]
)
def test_what_is_said_of_attention_by_itself_is_not_said_of_a_block(name: str) -> None:
    assert not BY_NAME[name].applies_to(CONTRACT)
    assert BY_NAME[name].applies_to(ALONE)


def test_the_pipeline_of_an_example_is_the_oracle_s_block() -> None:
    setting = set_example(CONTRACT)
    for numbers in list_numbers(setting):
        given = make_inputs(setting, numbers, finishes=True)
        exact = transformer_block(
            given.x, given.parameters, given.heads, given.may_attend, given.scale, given.variant
        )
        steps = run_pipeline(CORRECT, given)
        torch.testing.assert_close(steps.output, exact.output, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(steps.renormed, exact.normed, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("each", AROUND_ATTENTION, ids=lambda each: each.name)
def test_examples_are_of_what_is_asked_for(each: Mistake) -> None:
    found = work_example(OTHERWISE.get(each.name, CONTRACT), each)
    if found is not None:
        assert found.right != found.wrong


@pytest.mark.parametrize(
    ("name", "given", "result"),
    [
        ("first_residual_missing", "attention", "tokens + attention"),
        ("first_norm_left_out", "tokens", "normed tokens"),
        ("feed_forward_without_activation", "hidden", "activated"),
        ("second_residual_missing", "feed-forward", "output"),
        ("first_norm_twice", "tokens + attention", "normed sums"),
    ],
)
def test_an_example_shows_the_step(name: str, given: str, result: str) -> None:
    found = work_example(CONTRACT, BY_NAME[name])
    assert found is not None
    assert (found.given, found.result) == (given, result)
