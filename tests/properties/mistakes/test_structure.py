"""Structural mistakes are shown by what fails, and what else they break is simulated."""

from dataclasses import replace

import pytest
import torch

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.case import Case
from headcheck.properties.check import find_first_failure
from headcheck.properties.families import ALL
from headcheck.properties.families.contract import a_batch_of_one_stays_a_batch, the_dtype_is_kept
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue import ALL as IN_THE_EQUATION
from headcheck.properties.mistakes.catalogue.structure import STRUCTURAL
from headcheck.properties.mistakes.catalogue.symptom import (
    SqueezedShape,
    StructuralMistake,
    Symptom,
    describe_failure,
)
from headcheck.properties.mistakes.faulty_attention import (
    make_correct_computation,
    make_namespace,
    restate,
)
from headcheck.properties.mistakes.steps.calls import CallWrapper, call_plainly
from headcheck.properties.property import Property, Verdict
from headcheck.properties.violation import Status, SubmissionFailed, Violation, ViolationKind

EXERCISES = [BY_SLUG[slug] for slug in ("multi_head_attention", "masked_multi_head")]
CASE = Case()
BUILT = {"parameter_too_many", "bias_unasked"}
"""what a constructor does: calls only simulate what follows from it"""
WRAPPED = [each for each in STRUCTURAL if each.wrappers and each.mistake.name not in BUILT]


def fail(prop: Property, expected: str, got: str, kind: str = "value", where: str = "") -> Verdict:
    violation = Violation(ViolationKind(kind), expected, got, where)
    return Verdict(prop, Status.FAILED, case=CASE, violation=violation)


def crash(prop: Property, message: str, after: str = "") -> Verdict:
    failure = SubmissionFailed(Status.CRASHED, message, after=after)
    return Verdict(prop, Status.CRASHED, case=CASE, failure=failure)


def test_names_and_sentences_are_their_own() -> None:
    mistakes = [*IN_THE_EQUATION, *(each.mistake for each in STRUCTURAL)]
    assert len({m.name for m in mistakes}) == len(mistakes)
    assert len({m.sentence for m in mistakes}) == len(mistakes)
    assert all(not m.sentence[0].islower() and m.sentence.endswith(".") for m in mistakes)
    assert all(m.name.isidentifier() for m in mistakes)


def test_each_is_shown_by_properties_that_are_checked() -> None:
    for each in STRUCTURAL:
        assert each.symptoms
        named = {p for symptom in each.symptoms for p in symptom.properties} | {*each.explains}
        assert named <= {*ALL}


@pytest.mark.parametrize("structural", WRAPPED, ids=lambda each: each.mistake.name)
def test_a_simulated_mistake_shows_its_symptoms(structural: StructuralMistake) -> None:
    assert any(
        structural.is_shown_by(verdict)
        for exercise in EXERCISES
        for wrapper in structural.wrappers
        for verdict in check_symptoms(structural, exercise.slug, wrapper)
    )


def check_symptoms(structural: StructuralMistake, slug: str, wrapper: CallWrapper) -> list[Verdict]:
    contract = restate(BY_SLUG[slug].contract)
    wrapped = replace(make_correct_computation(BY_SLUG[slug].contract), wrapper=wrapper)
    harness = Harness(make_subject(make_namespace(contract, wrapped)), contract)
    harness.contract = contract
    cases = BY_SLUG[slug].plan_cases()
    looked_at = {p for symptom in structural.symptoms for p in symptom.properties}
    state = torch.random.get_rng_state()
    verdicts = [
        find_first_failure(prop, harness, cases[prop]) for prop in cases if prop in looked_at
    ]
    torch.random.set_rng_state(state)
    return verdicts


def test_right_attention_shows_none() -> None:
    for structural in WRAPPED:
        for verdict in check_symptoms(structural, "multi_head_attention", call_plainly):
            assert describe_failure(verdict) == "", verdict


def test_a_symptom_is_a_property_a_text_and_perhaps_a_dtype() -> None:
    symptom = Symptom("float64 at .* -> float32$", (the_dtype_is_kept,))
    shown = fail(the_dtype_is_kept, "float64", "float32", "dtype", "output")
    assert describe_failure(shown) == "dtype: float64 at output -> float32"
    assert symptom.is_shown_by(shown)
    assert not symptom.is_shown_by(fail(it_equals_the_equation, "float64", "float32", "dtype"))
    assert not symptom.is_shown_by(fail(the_dtype_is_kept, "float64", "float16", "dtype"))
    assert not symptom.is_shown_by(crash(the_dtype_is_kept, "RuntimeError: float32"))
    assert not symptom.is_shown_by(Verdict(the_dtype_is_kept, Status.PASSED))
    narrow = Symptom("", (the_dtype_is_kept,), dtype="bfloat16")
    assert not narrow.is_shown_by(shown)
    late = Symptom("crashed: .*size", (the_dtype_is_kept,), after=True)
    assert late.is_shown_by(crash(the_dtype_is_kept, "RuntimeError: size", "a call"))
    assert not late.is_shown_by(crash(the_dtype_is_kept, "RuntimeError: size"))


@pytest.mark.parametrize(
    ("expected", "got", "shown"),
    [
        ("shape (1, 6, 1)", "shape (6,)", True),
        ("shape (1, 1, 1)", "shape ()", True),
        ("shape (1, 3, 4)", "shape (3, 4)", True),
        ("shape (1, 3, 4)", "shape (4, 3)", False),
        ("shape (2, 3, 4)", "shape (3, 4)", False),
        ("shape (1, 3, 4)", "shape (1, 3, 4, 1)", False),
        ("the output (1 tensor)", "a tuple of 2", False),
    ],
)
def test_a_squeezed_shape_lacks_axes_of_length_one_alone(
    expected: str, got: str, shown: bool
) -> None:
    symptom = SqueezedShape((a_batch_of_one_stays_a_batch,))
    verdict = fail(a_batch_of_one_stays_a_batch, expected, got, "shape", "output")
    assert symptom.is_shown_by(verdict) is shown
