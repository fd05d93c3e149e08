"""What is cut from the graph is named by the gradients that are missing, and nothing else is."""

import pytest
import torch
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue.gradients import GRADIENTS, change_after
from headcheck.properties.mistakes.catalogue.mistake import Mistake
from headcheck.properties.mistakes.diagnosis import diagnose
from headcheck.properties.mistakes.faulty_attention import (
    Computation,
    make_correct_computation,
    make_namespace,
    restate,
)
from headcheck.properties.mistakes.pipeline import CORRECT, PipelineState
from headcheck.properties.mistakes.recognisers.answers import collect_answers
from headcheck.properties.mistakes.recognisers.gradients import recognise_gradients

MASKED = restate(BY_SLUG["masked_multi_head"].contract)
CAUSAL = restate(BY_SLUG["multi_head_attention"].contract)
LINEAR = restate(BY_SLUG["linear_layer"].contract)


def make_harness(contract: Contract, computation: Computation) -> Harness:
    harness = Harness(make_subject(make_namespace(contract, computation)), contract)
    harness.contract = contract
    return harness


@pytest.mark.sampled("mistake", GRADIENTS, GRADIENTS[::3], ids=lambda mistake: mistake.name)
def test_what_is_cut_is_named_and_its_numbers_are_right(mistake: Mistake) -> None:
    for overrides in mistake.variants:
        pipeline = CORRECT.override(overrides)
        found = diagnose(make_harness(MASKED, Computation((pipeline,))))
        assert [each.mistake.name for each in found] == [mistake.name]
        assert len(found[0].ways) == 1


@pytest.mark.parametrize("contract", [MASKED, CAUSAL, LINEAR])
def test_right_gradients_are_not_named(contract: Contract) -> None:
    harness = make_harness(contract, make_correct_computation(contract))
    assert recognise_gradients(collect_answers(harness, "cpu")) == ()


class Halved(torch.autograd.Function):
    """The same numbers, and half their gradient."""

    @staticmethod
    def forward(ctx: object, t: Tensor) -> Tensor:
        return t.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return gradient / 2


@pytest.mark.parametrize("step", ["normalise", "mix", "finish", "see"])
def test_gradients_that_are_wrong_in_another_way_have_no_name(step: str) -> None:
    pipeline = CORRECT.override(change_after(step, Halved.apply))
    answers = collect_answers(make_harness(CAUSAL, Computation((pipeline,))), "cpu")
    assert answers.are_right and recognise_gradients(answers) == ()


def test_rounded_numbers_are_not_named_after_their_gradients() -> None:
    def rounded(s: PipelineState) -> Tensor:
        return torch.round(torch.softmax(s.masked_scores, -1), decimals=3)

    found = diagnose(make_harness(CAUSAL, Computation((CORRECT.override({"normalise": rounded}),))))
    assert found == ()
