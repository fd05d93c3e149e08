"""A bias that nobody asked for costs what is said of it, and nothing else."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer
from headcheck.grader.grading.settings import Settings
from tests.grader.conftest import GradeText

PLAIN = BY_SLUG["self_attention_v2"]
BIASES = [
    ("self_attention_v2", "bias_always_on", 0.9),
    ("causal_attention", "bias_always_on", 0.94),
    ("gated_attention", "with_a_bias", 0.99),
    ("latent_attention", "down_with_a_bias", 0.99),
    ("two_dimensional_output", "with_biases", 0.99),
]
ON_PARAMETERS = {"there_are_no_other_parameters", "the_biases_follow_the_option"}


@pytest.mark.sampled(("slug", "name", "share"), BIASES, BIASES[:1])
def test_it_costs_its_own_claims(grade_text: GradeText, slug: str, name: str, share: float) -> None:
    exercise = BY_SLUG[slug]
    record = grade_text(find_answer(exercise, name).source, Settings(exercise=exercise))
    assert {p.name for p in record.properties if p.status == "failed"} <= ON_PARAMETERS
    assert record.score is not None
    assert record.max_score is not None
    assert share < record.score / record.max_score < 1
    [note] = [note.message for note in record.notes if note.kind == "unasked_bias"]
    assert "zero in all other checks" in note


def test_what_else_is_wrong_fails_as_before(grade_text: GradeText) -> None:
    source = find_answer(PLAIN, "bias_always_on").source
    assert "dim=-1" in source
    record = grade_text(source.replace("dim=-1", "dim=0"), Settings(exercise=PLAIN))
    failed = {p.name for p in record.properties if p.status == "failed"}
    assert {"it_equals_the_equation", "the_biases_follow_the_option"} <= failed
    assert "softmax_over_queries" in [each.name for each in record.diagnosis]


def test_one_that_is_asked_for_is_no_such_bias(grade_text: GradeText) -> None:
    source = find_answer(PLAIN, "bias_ignored").source
    record = grade_text(source, Settings(exercise=PLAIN))
    assert not [note for note in record.notes if note.kind == "unasked_bias"]
