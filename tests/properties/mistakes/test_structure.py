"""Structural mistakes are shown by what fails, and what else they break is simulated."""

from dataclasses import replace

import pytest
import torch

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.check import find_first_failure
from headcheck.properties.families import ALL
from headcheck.properties.families.contract import a_batch_of_one_stays_a_batch
from headcheck.properties.families.results import the_dtype_is_kept
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue import ALL as IN_THE_EQUATION
from headcheck.properties.mistakes.catalogue.structure import STRUCTURAL
from headcheck.properties.mistakes.catalogue.symptom import (
    ANY_KIND,
    ShapeSymptom,
    StructuralMistake,
    Symptom,
    lacks_axes_of_length_one,
)
from headcheck.properties.mistakes.faulty_attention import (
    make_correct_computation,
    make_namespace,
    restate,
)
from headcheck.properties.mistakes.steps.calls import CallWrapper, call_plainly
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import (
    Reason,
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
)

Shapes = tuple[tuple[int, ...], tuple[int, ...]]

EXERCISES = [BY_SLUG[slug] for slug in ("multi_head_attention", "masked_multi_head")]
CASE = Case()
BUILT = {"parameter_too_many", "bias_unasked"}
"""what a constructor does: calls only simulate what follows from it"""
WRAPPED = [each for each in STRUCTURAL if each.wrappers and each.mistake.name not in BUILT]


def fail(
    prop: Property, kind: str = "value", reason: str = "", shapes: Shapes | None = None
) -> Verdict:
    violation = Violation(ViolationKind(kind), "one", "two", "output", reason=reason, shapes=shapes)
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
    asked = (prop for prop in cases if prop in looked_at)
    verdicts = [find_first_failure(prop, harness, cases[prop]) for prop in asked]
    torch.random.set_rng_state(state)
    return verdicts


def test_right_attention_shows_none() -> None:
    for structural in WRAPPED:
        for verdict in check_symptoms(structural, "multi_head_attention", call_plainly):
            assert not structural.is_shown_by(verdict), verdict


def test_a_symptom_is_a_property_a_kind_or_reason_and_perhaps_a_dtype() -> None:
    symptom = Symptom((the_dtype_is_kept,), reasons={Reason.BECAME_FLOAT32})
    shown = fail(the_dtype_is_kept, "dtype", Reason.BECAME_FLOAT32)
    assert symptom.is_shown_by(shown)
    assert not symptom.is_shown_by(fail(it_equals_the_equation, "dtype", Reason.BECAME_FLOAT32))
    assert not symptom.is_shown_by(fail(the_dtype_is_kept, "dtype"))
    assert not symptom.is_shown_by(crash(the_dtype_is_kept, "RuntimeError: float32"))
    assert not symptom.is_shown_by(Verdict(the_dtype_is_kept, Status.PASSED))
    any_kind = Symptom((the_dtype_is_kept,), kinds=ANY_KIND)
    assert any_kind.is_shown_by(shown) and not any_kind.is_shown_by(crash(the_dtype_is_kept, "a"))
    assert not replace(any_kind, without={Reason.BECAME_FLOAT32}).is_shown_by(shown)
    assert not replace(any_kind, dtype="bfloat16").is_shown_by(shown)
    late = Symptom((the_dtype_is_kept,), crashes="size", after="")
    assert late.is_shown_by(crash(the_dtype_is_kept, "RuntimeError: size", "a call"))
    assert not late.is_shown_by(crash(the_dtype_is_kept, "RuntimeError: size"))
    after_a_call = crash(the_dtype_is_kept, "RuntimeError: size", "a call")
    assert not replace(late, after="a copy").is_shown_by(after_a_call)


def test_no_mistake_is_named_by_the_words_of_a_message() -> None:
    """Words change. Patterns are for exceptions, whose words are Python's and torch's."""
    symptoms = [s for each in STRUCTURAL for s in each.symptoms if isinstance(s, Symptom)]
    assert all(s.kinds or s.reasons or s.crashes is not None for s in symptoms)
    codes = {*Reason, *(each.mistake.name for each in STRUCTURAL)}
    assert {reason for s in symptoms for reason in (*s.reasons, *s.without)} <= codes


@pytest.mark.parametrize(
    ("expected", "got", "shown"),
    [
        ((1, 6, 1), (6,), True),
        ((1, 1, 1), (), True),
        ((1, 3, 4), (3, 4), True),
        ((1, 3, 4), (4, 3), False),
        ((2, 3, 4), (3, 4), False),
        ((1, 3, 4), (1, 3, 4, 1), False),
    ],
)
def test_a_squeezed_shape_lacks_axes_of_length_one_alone(
    expected: tuple[int, ...], got: tuple[int, ...], shown: bool
) -> None:
    symptom = ShapeSymptom((a_batch_of_one_stays_a_batch,), lacks_axes_of_length_one)
    verdict = fail(a_batch_of_one_stays_a_batch, "shape", shapes=(expected, got))
    assert symptom.is_shown_by(verdict) is shown
    assert not symptom.is_shown_by(fail(a_batch_of_one_stays_a_batch, "type"))
