"""What a recording predicts; a property follows from answers at the edge of their tolerances."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from exercises import ALL, BY_SLUG
from exercises.exercise import Exercise
from grader.batch.recording import Recorder, RecordingContext, record_queries
from properties.case import Case
from properties.property import PropertyGroup
from properties.tolerance import Tolerance
from properties.violation import Violation

SMALL = [exercise for exercise in ALL if exercise.slug != "gpt2_size"]


class AtTheEdge(RecordingContext):
    """A context whose answers are off by their whole tolerance, up here and down there."""

    def round_answer(self, exact: Tensor, allowed: Tolerance) -> Tensor:
        # The same answer for the same query, and another one for every other.
        seed = int.from_bytes(hashlib.blake2b(exact.numpy().tobytes(), digest_size=4).digest())
        generator = torch.Generator().manual_seed(seed)
        signs = torch.randint(0, 2, exact.shape, generator=generator) * 2 - 1
        # float32 rounds what is pushed, which takes a part of the bound.
        share = 0.999 if self.case.dtype == "float64" else 0.7
        return super().round_answer(exact + share * signs * allowed.exact, allowed)


class EdgeStage(Recorder):
    def create_context(self, case: Case) -> AtTheEdge:
        return AtTheEdge(self, case)


@pytest.mark.sampled("exercise", SMALL, SMALL[1::8], ids=lambda exercise: exercise.slug)
def test_nearly_exact_answers_satisfy_what_exact_ones_do(exercise: Exercise) -> None:
    stage = EdgeStage(exercise.contract)
    rejected = []
    for claim, cases in exercise.plan_cases().items():
        for case in cases:
            try:
                stage.record_property(claim, [case])
            except Violation as violation:
                rejected.append((claim.name, str(case), str(violation)))
    assert rejected == []


def test_properties_beyond_the_equation_cannot_be_recorded() -> None:
    exercise = BY_SLUG["causal_attention"]
    asked = {
        claim.name
        for claim in record_queries(exercise.contract, exercise.plan_cases()).query_numbers
    }
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


def test_queries_of_batch_properties_are_never_stacked() -> None:
    exercise = BY_SLUG["causal_attention"]
    recording = record_queries(exercise.contract, exercise.plan_cases())
    for claim, numbers in recording.query_numbers.items():
        if claim.group is PropertyGroup.BATCH:
            assert all(recording.queries[number].needs_own_batch for number in numbers)
    assert not all(query.needs_own_batch for query in recording.queries)


def test_large_weights_are_not_recorded() -> None:
    exercise = BY_SLUG["gpt2_size"]
    assert record_queries(exercise.contract, exercise.plan_cases()).queries == ()


@pytest.mark.parametrize(
    ("slug", "changes"),
    [("sliding_window", ({"window": 2}, {"window": 9})), ("softcap", ({"softcap": 2.0}, {}))],
)
def test_what_is_asked_for_besides_tensors_tells_cases_apart(
    slug: str, changes: tuple[dict[str, Any], ...]
) -> None:
    contract = BY_SLUG[slug].contract
    recorder = Recorder(contract)
    base = Case(batch=2, tokens=5, context_length=5, d_in=3, heads=2, head_dim=2, softcap=9.0)
    one, other = (recorder.get_context(contract.fit(replace(base, **change))) for change in changes)
    assert torch.equal(one.x, other.x)
    first, second = (context.compute_expected().outputs[0] for context in (one, other))
    assert not torch.allclose(first, second)
    for context in (one, other):
        alone = Recorder(contract).get_context(context.case).compute_expected()
        assert torch.equal(context.compute_expected().outputs[0], alone.outputs[0])
