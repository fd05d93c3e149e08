"""What a rehearsal foresees, and that a claim follows from answers at the edge of their bounds."""

import hashlib

import pytest
import torch
from torch import Tensor

from exercises import ALL, BY_SLUG
from exercises.exercise import Exercise
from grader.batch.recording import Rehearsal, Stage, rehearse
from properties.case import Case
from properties.property import Group
from properties.tolerance import Allowed
from properties.violation import Violation

SMALL = [exercise for exercise in ALL if exercise.slug != "gpt2_size"]


class AtTheEdge(Rehearsal):
    """A trial whose answers are off by as much as they may be, up here and down there."""

    def spoken(self, exact: Tensor, allowed: Allowed) -> Tensor:
        # The same answer for the same question, and another one for every other.
        seed = int.from_bytes(hashlib.blake2b(exact.numpy().tobytes(), digest_size=4).digest())
        generator = torch.Generator().manual_seed(seed)
        signs = torch.randint(0, 2, exact.shape, generator=generator) * 2 - 1
        # float32 rounds what is pushed, which takes a part of the bound.
        share = 0.999 if self.case.dtype == "float64" else 0.7
        return super().spoken(exact + share * signs * allowed.exact, allowed)


class EdgeStage(Stage):
    def fresh(self, case: Case) -> AtTheEdge:
        return AtTheEdge(self, self.contract, case)


@pytest.mark.parametrize("exercise", SMALL, ids=lambda exercise: exercise.slug)
def test_what_follows_from_exact_answers_is_kept_by_nearly_exact_ones(exercise: Exercise) -> None:
    stage = EdgeStage(exercise.contract)
    rejected = []
    for claim, cases in exercise.plan().items():
        for case in cases:
            try:
                stage.asked_by(claim, [case])
            except Violation as violation:
                rejected.append((claim.name, str(case), str(violation)))
    assert rejected == []


def test_what_reaches_beyond_the_equation_cannot_be_rehearsed() -> None:
    exercise = BY_SLUG["causal_attention"]
    asked = {claim.name for claim in rehearse(exercise.contract, exercise.plan()).asked}
    live = {claim.name for claim in exercise.properties} - asked
    assert live >= {
        "it_can_be_constructed",
        "the_weights_are_registered_and_trainable",
        "evaluation_leaves_the_random_numbers_alone",
        "the_input_is_left_unchanged",
        "earlier_calls_do_not_matter",
        "the_training_flag_is_left_alone",
        "a_deep_copy_gives_the_same_output",
        "dropout_drops_the_stated_share",
        "no_dropout_means_no_difference",
        "bfloat16_runs",
        "it_moves_to_another_device",
        "every_module_starts_anew",
    }
    assert asked >= {"it_equals_the_equation", "the_future_is_invisible"}


def test_what_the_batch_s_claims_ask_is_never_stacked() -> None:
    exercise = BY_SLUG["causal_attention"]
    rehearsed = rehearse(exercise.contract, exercise.plan())
    for claim, numbers in rehearsed.asked.items():
        if claim.group is Group.BATCH:
            assert all(rehearsed.questions[number].alone for number in numbers)
    assert not all(question.alone for question in rehearsed.questions)


def test_large_weights_are_not_laid_out() -> None:
    exercise = BY_SLUG["gpt2_size"]
    assert rehearse(exercise.contract, exercise.plan()).questions == ()
