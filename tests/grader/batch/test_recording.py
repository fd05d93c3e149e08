"""What a recording predicts; a property follows from answers at the edge of their tolerances."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from headcheck.exercises import ALL, BY_SLUG
from headcheck.exercises.exercise import Exercise
from headcheck.grader.batch.recording import (
    NotRecordable,
    Recorder,
    RecordingContext,
    record_queries,
)
from headcheck.properties.bounds.tolerance import Tolerance
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.property import Property, PropertyGroup
from headcheck.properties.terms.call_form import EmptyRow
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.size_rules import parse_sizes
from headcheck.properties.violations.violation import Violation

SMALL = [exercise for exercise in ALL if exercise.slug != "gpt2_size"]


def check_recordable(recorder: Recorder, claim: Property, cases: Sequence[Case]) -> None:
    """Run a check as a recording does; what goes wrong is not held back."""
    for case in cases if claim.recordable_check else ():
        with suppress(NotRecordable):
            assert claim.recordable_check is not None
            claim.recordable_check(recorder.get_context(case))


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


@pytest.mark.sampled("exercise", SMALL, SMALL[1::16], ids=lambda exercise: exercise.slug)
def test_nearly_exact_answers_satisfy_what_exact_ones_do(exercise: Exercise) -> None:
    stage = EdgeStage(exercise.contract)
    rejected = []
    for claim, cases in exercise.plan_cases().items():
        for case in cases:
            try:
                check_recordable(stage, claim, [case])
            except Violation as violation:
                rejected.append((claim.name, str(case), str(violation)))
    assert rejected == []


def test_properties_beyond_the_equation_cannot_be_recorded() -> None:
    exercise = BY_SLUG["causal_attention"]
    recorded = record_queries(exercise.contract, exercise.plan_cases())
    asked = {claim.name for claim in recorded.query_numbers}
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


@pytest.mark.parametrize("promised", [EmptyRow.ZEROS, EmptyRow.FINITE])
@pytest.mark.parametrize("slug", ["padding_mask", "masked_multi_head"])
def test_gradients_are_recorded_under_the_mask_that_is_asked_for(
    slug: str, promised: EmptyRow
) -> None:
    """Once they were computed under the case's own mask, and every right answer was a fault."""
    exercise = BY_SLUG[slug]
    mask = replace(exercise.contract.call_form.mask, empty_row=promised)
    call_form = replace(exercise.contract.call_form, mask=mask)
    capabilities = exercise.contract.capabilities | {Capability.EMPTY_ROWS}
    contract = replace(exercise.contract, call_form=call_form, capabilities=capabilities)
    plan = replace(exercise, contract=contract, cases=6).plan_cases()
    about = {claim for claim in plan if claim.needs & {Capability.EMPTY_ROWS}}
    assert {claim.name for claim in about} >= {"a_query_that_sees_nothing_spoils_no_gradient"}
    for claim in about:
        check_recordable(Recorder(contract), claim, plan[claim])


@pytest.mark.parametrize("slug", ["rope", "latent_attention", "multi_head_attention"])
def test_a_width_of_one_is_a_fault_of_no_check(slug: str) -> None:
    """No second number of a token can be written where there is one."""
    contract = BY_SLUG[slug].contract.with_sizes(parse_sizes("d_in=1"))
    recorder = Recorder(contract)
    plan = replace(BY_SLUG[slug], contract=contract, cases=4).plan_cases()
    for claim, cases in plan.items():
        check_recordable(recorder, claim, cases[:3])


def test_a_fault_of_ours_costs_one_check_its_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    exercise = BY_SLUG["self_attention_v2"]
    plan = replace(exercise, cases=4).plan_cases()
    whole = set(record_queries(exercise.contract, plan).query_numbers)
    broken = next(claim for claim in plan if claim.name == "it_equals_the_equation")
    assert broken in whole

    def fails(context: object) -> None:
        raise ZeroDivisionError

    faulty = replace(broken, recordable_check=fails)
    changed = {faulty if claim is broken else claim: cases for claim, cases in plan.items()}
    assert set(record_queries(exercise.contract, changed).query_numbers) == whole - {broken}
