"""Answers to exercises, graded from files in confined processes: what they get, and are told."""

from collections.abc import Callable

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer, list_answers
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.records import PropertyRecord, SubmissionRecord
from headcheck.grader.seed import make_seed
from headcheck.properties.families.device import (
    it_moves_to_another_device,
    it_moves_to_another_dtype,
)
from headcheck.properties.terms.depth import Depth
from tests.grader.conftest import GradeText

# ------------------------------------------ in unusual styles, from a file and under another seed


@pytest.mark.parametrize(
    ("slug", "style"),
    [
        ("gpt2_size", "partial_application"),
        ("weight_transfer", "one_long_vector"),  # a copy of it is rounded in another order
    ],
)
def test_an_answer_in_an_unusual_style_is_right(
    slug: str, style: str, grade_text: GradeText
) -> None:
    exercise = BY_SLUG[slug]
    [answer] = [each for each in list_answers(exercise, "right") if each.name == style]
    record = grade_text(answer.source, Settings(exercise=exercise, seed=make_seed(2)))
    assert (record.status, record.score) == ("passed", record.max_score)


# --------------------------------------------------------------------------------- at both depths


def fix_dtype(slug: str) -> str:
    """Return a right answer whose weights of tokens are made in float32, whatever the input's."""
    source = BY_SLUG[slug].solution
    before = "torch.softmax("
    assert before in source
    return source.replace(before, "_in_single(") + (
        "\n\ndef _in_single(scores, dim):\n"
        "    if scores.dtype == torch.bfloat16:\n"
        "        scores = scores.float()\n"
        "    return torch.softmax(scores, dim=dim)\n"
    )


@pytest.mark.parametrize("slug", ["alibi", "multi_head_attention"])
def test_what_stops_in_bfloat16_loses_the_same_at_both_depths(
    grade_text: GradeText, slug: str
) -> None:
    answer, told = fix_dtype(slug), []
    for depth in Depth:
        record = grade_text(answer, Settings(exercise=BY_SLUG[slug], depth=depth))
        failed = [p.name for p in record.properties if p.status in ("failed", "crashed")]
        lost = {p.group for p in record.properties if p.points < p.max_points}
        told.append((failed, lost, record.score))
    assert told[0] == told[1]
    assert told[0][0] == ["bfloat16_runs"] and told[0][1] == {"precision"}


# -------------------------------------------------------------- with a bias that nobody asked for

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


# -------------------------------------------------------------------------------------- that move

EXERCISE = BY_SLUG["multi_head_attention"]
ADVICE = (
    '.to() moves parameters and buffers, not other attributes. Keep it with self.register_buffer("'
)


def moved(grade_text: GradeText, answer: str) -> list[PropertyRecord]:
    """What is said of an answer of the bank about moving it."""
    record = grade_text(find_answer(EXERCISE, answer).source, Settings(exercise=EXERCISE))
    names = [it_moves_to_another_dtype.name, it_moves_to_another_device.name]
    return [p for p in record.properties if p.name in names]


@pytest.mark.parametrize(
    ("answer", "status", "name", "line"),
    [
        ("mask_attribute_filled_in_place", "crashed", "future", 33),
        ("mask_attribute_added_in_place", "crashed", "future", 33),
        ("mask_attribute_as_an_index", "failed", "future", None),
    ],
)
def test_unmoved_mask_fails_that_property(
    grade_text: GradeText, answer: str, status: str, name: str, line: int | None
) -> None:
    dtype, device = moved(grade_text, answer)
    assert (dtype.status, dtype.message) == ("passed", "")
    assert (device.status, device.line) == (status, line)
    assert f"`{name}`, of shape (" in device.message
    assert f"stayed on the cpu: {ADVICE}{name}" in device.message


@pytest.mark.parametrize("answer", ["view_and_transpose", "residual_dropout"])
def test_right_answer_moves(grade_text: GradeText, answer: str) -> None:
    found = moved(grade_text, answer)
    assert [(p.status, p.message) for p in found] == [("passed", "")] * 2


# ------------------------------------------------------------------------- with one thing changed

Grade = Callable[[str, str, str], SubmissionRecord]
BLOCKED = "scores.masked_fill(mask == 0,"
WEIGHED = "weights = self.dropout(torch.softmax(scores, dim=-1))"
SCALED = "scores = q @ k.transpose(-2, -1) / self.d_k**0.5\n"


@pytest.fixture
def grade(grade_text: GradeText) -> Grade:
    """Grades a solution in which something is replaced."""

    def grade_edited(slug: str, old: str, new: str) -> SubmissionRecord:
        exercise = BY_SLUG[slug]
        assert exercise.solution.count(old) == 1
        return grade_text(exercise.solution.replace(old, new), Settings(exercise=exercise))

    return grade_edited


CHANGES = [
    (BLOCKED, "scores.masked_fill(mask != 0,", "mask_inverted"),
    (
        BLOCKED,
        "scores.masked_fill(mask if mask.dtype == torch.bool else mask == 0,",
        "mask_read_otherwise",
    ),
    (BLOCKED, "scores.masked_fill(mask != 1,", "mask_read_otherwise"),
    (SCALED, SCALED + " " * 8 + "q.requires_grad and scores.register_hook(lambda g: g / 2)\n",
     "gradients_changed"),
    (SCALED, "q, k = (nn.functional.layer_norm(t, t.shape[-1:]) for t in (q, k))\n"
     + " " * 8 + SCALED, "queries_and_keys_normalised"),
]  # fmt: skip


@pytest.mark.sampled(("old", "new", "name"), CHANGES, CHANGES[1::2])
def test_a_change_is_called_what_it_is(grade: Grade, old: str, new: str, name: str) -> None:
    record = grade("masked_multi_head", old, new)
    assert record.status != "passed"
    assert [each.name for each in record.diagnosis] == [name] * bool(name)


@pytest.mark.whole
def test_zeros_that_are_taken_for_padding_are_named(grade: Grade) -> None:
    hide = "scores = scores.masked_fill((x == 0).all(-1)[:, None, None], -1e9)"
    record = grade("multi_head_attention", WEIGHED, f"{hide}\n        {WEIGHED}")
    assert [each.name for each in record.diagnosis] == ["zero_tokens_hidden"]


def test_of_nan_it_is_not_said_that_nothing_changed(grade: Grade) -> None:
    record = grade(
        "multi_head_attention", "self.out_proj(context)", "self.out_proj(context) * torch.nan"
    )
    said = [each.message for each in record.properties]
    assert any("it became nan" in each for each in said)
    assert not any("nothing changed" in each for each in said)
