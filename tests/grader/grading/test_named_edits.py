"""Solutions with one thing changed, and what it is called: no more than is true of the code."""

from collections.abc import Callable

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.records import SubmissionRecord
from tests.grader.conftest import GradeText

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
